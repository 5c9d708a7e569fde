// Children and their exit codes, handles, a pipeline, threads, a child that is destroyed.
import java.io.*;
import java.util.*;
import java.util.concurrent.*;

public class Family {
    static int run(String... words) throws Exception {
        return new ProcessBuilder(words).inheritIO().start().waitFor();
    }

    public static void main(String[] args) throws Exception {
        System.out.println(run("sh", "-c", "echo from the child; exit 13"));
        Process cat = new ProcessBuilder("cat").start();
        cat.getOutputStream().write(new byte[50000]);
        cat.getOutputStream().close();
        System.out.println(cat.getInputStream().readAllBytes().length + " " + cat.waitFor());
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Integer>> codes = new ArrayList<>();
        for (int i = 0; i < 24; i++) {
            String code = "exit " + i;
            codes.add(pool.submit(() -> run("sh", "-c", code)));
        }
        int sum = 0;
        for (Future<Integer> code : codes) sum += code.get();
        pool.shutdown();
        System.out.println(sum);
        Process sleep = new ProcessBuilder("sleep", "1000").start();
        System.out.println(sleep.isAlive() + " " + sleep.toHandle().parent().get().equals(ProcessHandle.current()));
        sleep.destroyForcibly();
        System.out.println(sleep.waitFor());
        List<Process> line = ProcessBuilder.startPipeline(List.of(
            new ProcessBuilder("seq", "100"), new ProcessBuilder("grep", "9"), new ProcessBuilder("wc", "-l")));
        System.out.print(new String(line.get(2).getInputStream().readAllBytes()));
        System.exit(14);
    }
}
