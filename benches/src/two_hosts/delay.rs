//! A TCP proxy that delays: the kernel's own means (netem) is not in every kernel.
//!
//! Each direction keeps bytes for half of the delay, in order. It limits no bandwidth: bytes that
//! come together leave together.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// Arguments of the proxy.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Address to listen at
    listen: SocketAddr,
    /// Address to connect to
    server: SocketAddr,
    /// Delay of a round trip, in microseconds
    round_trip_us: u64,
}

/// Pass connections on, until the process is killed.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    sleep_exactly();
    let listener = TcpListener::bind(arguments.listen).context("the proxy cannot listen")?;
    pass_on(&listener, arguments.server, Duration::from_micros(arguments.round_trip_us))
}

/// Ask the kernel to end the sleeps of this thread, and of threads that it starts, on time. By default it
/// may add 50 us, which is half of the shortest delay.
pub(super) fn sleep_exactly() {
    // Without it delays are longer, which the benchmark measures and prints.
    drop(std::fs::write("/proc/self/timerslack_ns", "1"));
}

/// Pass on what comes to a listener.
fn pass_on(listener: &TcpListener, server: SocketAddr, round_trip: Duration) -> Result<()> {
    for client in listener.incoming() {
        let client = client.context("a connection fails")?;
        let server = TcpStream::connect(server).context("the proxy reaches no server")?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let (there, back) = (client.try_clone()?, server.try_clone()?);
        delay(there, server, round_trip / 2);
        delay(back, client, round_trip / 2);
    }
    Ok(())
}

/// Pass on one direction of a connection, late by some time.
fn delay(source: TcpStream, target: TcpStream, by: Duration) {
    let (send, receive) = channel();
    thread::spawn(move || take(source, &send, by));
    thread::spawn(move || give(target, &receive));
}

fn take(mut source: TcpStream, send: &Sender<(Instant, Vec<u8>)>, by: Duration) {
    let mut buffer = vec![0; PIECE];
    while let Ok(read @ 1..) = source.read(&mut buffer) {
        if send.send((Instant::now() + by, buffer[..read].to_vec())).is_err() {
            break;
        }
    }
}

fn give(mut target: TcpStream, receive: &Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in receive {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if target.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other direction goes on. The other side may have closed both.
    drop(target.shutdown(Shutdown::Write));
}

/// Return the median time that a byte takes through a proxy and back, in microseconds.
pub(super) fn measure(round_trip: Duration) -> Result<f64> {
    const ROUNDS: usize = 200;
    sleep_exactly();
    let (echo, listener) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (server, proxy) = (echo.local_addr()?, listener.local_addr()?);
    thread::spawn(move || {
        let (mut stream, _) = echo.accept()?;
        stream.set_nodelay(true)?;
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte)?;
        }
        std::io::Result::Ok(())
    });
    thread::spawn(move || pass_on(&listener, server, round_trip));
    let mut stream = TcpStream::connect(proxy)?;
    stream.set_nodelay(true)?;
    let mut times = vec![];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(crate::measure::median(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_late_and_in_order() {
        let round_trip = Duration::from_millis(20);
        let (echo, listener) = ["127.0.0.1:0"; 2].map(|it| TcpListener::bind(it).unwrap()).into();
        let (server, proxy) = (echo.local_addr().unwrap(), listener.local_addr().unwrap());
        thread::spawn(move || pass_on(&listener, server, round_trip));
        let mut client = TcpStream::connect(proxy).unwrap();
        let echoing = thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut taken = stream.try_clone().unwrap();
            std::io::copy(&mut taken, &mut stream).unwrap()
        });
        let bytes: Vec<u8> = (0..=250).cycle().take(2 * PIECE).collect();
        let start = Instant::now();
        client.write_all(&bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut back = vec![];
        client.read_to_end(&mut back).unwrap();
        assert!(start.elapsed() >= round_trip, "{:?}", start.elapsed());
        assert!(back == bytes, "the bytes and their order stay");
        assert_eq!(echoing.join().unwrap(), bytes.len() as u64);
    }
}
