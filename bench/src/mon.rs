//! `./x bench mon`: samples of machines.

use crate::cpu;
use crate::place::shoal;
use crate::table::{head, print, Bar, Line, Spread};
use sample::sampler::Sampler;
use sample::text::{Form, Shape};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use vocab::{Fault, Result};

/// Of each figure.
const RUNS: usize = 9;
/// Samples in one run.
const SAMPLES: usize = 4000;
const ROUNDS: usize = 100;
const NODES: u8 = 100;
const PORT: u16 = 7708;
/// Bytes of a node's sample, at least.
const LEAST_BYTES: f64 = 1024.0;
/// Of the cost of ten samples in a second.
const SECONDS: u64 = 10;
/// Until somebody listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// Prints all lines; false when a bar was missed.
///
/// # Errors
/// Where nothing can be measured at all.
pub(crate) fn measure() -> Result<bool> {
    head();
    Ok(memory()? & one_over_tcp()? & many()?)
}

fn told(name: &str, figures: Vec<f64>, unit: &str, bar: Bar) -> bool {
    print(&Line { name, figure: Spread::of(figures), local: None, unit, bar })
}

/// Taken from the kernel and written as text, in one process.
fn memory() -> Result<bool> {
    let mut sampler = Sampler::new()?;
    sampler.take(|_| true);
    let shape = Shape::new(Form::Words, sampler.layout(), |_| true);
    let (mut out, mut rates, mut pure) = (Vec::new(), Vec::new(), Vec::new());
    let me = std::process::id();
    for _ in 0..RUNS {
        let (start, before) = (Instant::now(), cpu::cpu_ns(me));
        for _ in 0..SAMPLES {
            sampler.take(|_| true);
            out.clear();
            shape.write("n0", sampler.time_us(), sampler.values(), &mut out);
        }
        rates.push(SAMPLES as f64 / start.elapsed().as_secs_f64());
        pure.push(SAMPLES as f64 / ((cpu::cpu_ns(me) - before) as f64 / 1e9));
    }
    let large = told("a node's full sample", vec![out.len() as f64], "B", Bar::Least(LEAST_BYTES));
    let met = told("samples, in one process", rates, "/s", Bar::Least(20_000.0)) & large;
    told("  in a second of a processor", pure, "/s", Bar::None);
    Ok(met)
}

/// A process of ours that ends with this one.
struct Served(Child);

impl Served {
    fn start(words: &[String]) -> Result<Served> {
        let mut command = Command::new(shoal()?);
        command.arg0("shoal").arg("mon").args(words).stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map(Served).map_err(|e| Fault::io(&e, "start a monitor"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All of 127.0.0.0/8 is this machine.
fn address(of: u8) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::new(127, 77, 0, of), PORT))
}

fn serve(of: u8) -> Result<Served> {
    Served::start(&["serve".into(), "--name".into(), format!("n{of}"), "--listen".into(), address(of).to_string()])
}

/// Somebody who asks, one question after the other.
struct Client {
    from: BufReader<TcpStream>,
    line: String,
}

impl Client {
    fn connect(to: SocketAddr) -> Result<Client> {
        let until = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect(to) {
                Ok(stream) => {
                    let tuned = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
                    tuned.map_err(|e| Fault::io(&e, "set up a connection"))?;
                    return Ok(Client { from: BufReader::with_capacity(1 << 20, stream), line: String::new() });
                }
                Err(e) if Instant::now() > until => return Err(Fault::io(&e, format!("connect to {to}"))),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn ask(&mut self, question: &str) -> Result<&str> {
        self.line.clear();
        let asked = self.from.get_mut().write_all(question.as_bytes());
        asked.and_then(|()| self.from.read_line(&mut self.line)).map_err(|e| Fault::io(&e, "ask a monitor"))?;
        Ok(&self.line)
    }
}

fn one_over_tcp() -> Result<bool> {
    let served = serve(1)?;
    let mut client = Client::connect(address(1))?;
    let (mut rates, mut bytes) = (Vec::new(), 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..SAMPLES {
            bytes = client.ask("S\n")?.len();
        }
        rates.push(SAMPLES as f64 / start.elapsed().as_secs_f64());
    }
    if (bytes as f64) < LEAST_BYTES {
        return Err(Fault::wire(format!("a sample of {bytes} bytes")));
    }
    let met = told("samples over TCP, one after the other", rates, "/s", Bar::Least(5000.0));
    let (pid, start, before) = (served.0.id(), Instant::now(), cpu::cpu_ns(served.0.id()));
    for n in 1..=SECONDS * 10 {
        client.ask("S\n")?;
        std::thread::sleep((start + Duration::from_millis(n * 100)).saturating_duration_since(Instant::now()));
    }
    let used = (cpu::cpu_ns(pid) - before) as f64 / start.elapsed().as_nanos() as f64;
    Ok(told("ten samples in a second: of a processor", vec![used * 100.0], "%", Bar::Figure(0.5)) & met)
}

/// Monitors and a concentrator.
fn many() -> Result<bool> {
    let _served = (1..=NODES).map(serve).collect::<Result<Vec<Served>>>()?;
    for of in 1..=NODES {
        Client::connect(address(of))?;
    }
    let gather = address(NODES + 1);
    let words = ["concentrate", "--listen", &gather.to_string(), "--from"].map(String::from);
    let words: Vec<String> = words.into_iter().chain((1..=NODES).map(|of| address(of).to_string())).collect();
    let _concentrator = Served::start(&words)?;
    let mut client = Client::connect(gather)?;
    // The first connects.
    client.ask("S\n")?;
    let (mut rates, mut bytes) = (Vec::new(), 0);
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let answer = client.ask("S\n")?;
            let here = answer.matches("(sample (node").count();
            if here != usize::from(NODES) {
                return Err(Fault::gone(format!("{here} of {NODES} monitors have answered")));
            }
            bytes = answer.len();
        }
        rates.push(ROUNDS as f64 / start.elapsed().as_secs_f64());
    }
    let each = bytes as f64 / f64::from(NODES);
    let large = told("  a node's sample there", vec![each], "B", Bar::Least(LEAST_BYTES));
    Ok(told("100 nodes: rounds of a concentrator", rates, "/s", Bar::Least(100.0)) & large)
}
