// Children and their states, process groups, signals, goroutines on many threads.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		fmt.Println("child of", os.Getppid() == atoi(os.Args[1]))
		os.Exit(11)
	}
	out, err := exec.Command("/proc/self/exe", fmt.Sprint(os.Getpid())).Output()
	fmt.Print(string(out), err, "\n")
	cat := exec.Command("cat")
	cat.Stdin = strings.NewReader(strings.Repeat("x", 200000))
	text, err := cat.Output()
	fmt.Println(len(text), err)
	var group sync.WaitGroup
	codes := make([]int, 30)
	for i := range codes {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			err := exec.Command("sh", "-c", fmt.Sprintf("exit %d", i)).Run()
			if exit, ok := err.(*exec.ExitError); ok {
				codes[i] = exit.ExitCode()
			}
		}(i)
	}
	group.Wait()
	fmt.Println(codes)
	sleep := exec.Command("sleep", "1000")
	sleep.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	fmt.Println(sleep.Start())
	fmt.Println(syscall.Kill(-sleep.Process.Pid, syscall.SIGSTOP), syscall.Kill(-sleep.Process.Pid, syscall.SIGKILL))
	fmt.Println(sleep.Wait())
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-got)
	fmt.Println(syscall.Kill(4194303, 0))
	os.Exit(12)
}

func atoi(text string) (n int) {
	fmt.Sscan(text, &n)
	return
}
