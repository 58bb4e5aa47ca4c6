//! `cargo xtask soak`: an engine under mixed load for as long as one likes, with policies that change,
//! restarts, kills, clients that break off or talk nonsense, and rotten flash; what is read is
//! verified, and its memory is watched. Needs fio.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Between two looks at the server's memory.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// A reload of the configuration, under load.
const RELOAD_INTERVAL: Duration = Duration::from_millis(1500);
/// Between two starts: long enough for a judgement of memory, as each quarter sees every policy.
const ROUNDS_PER_START: u32 = 48;
/// Memory may grow by this much, and this part, between the parts of a run that are compared.
const GROWTH_BYTES: u64 = 4 << 20;
const GROWTH_PART: u64 = 50;
/// Lifetimes with fewer samples are not judged.
const SAMPLES_MIN: usize = 180;
/// The server is waited for so long.
const PATIENCE: Duration = Duration::from_mins(1);

/// Counts of the run.
#[derive(Debug, Default)]
struct Tally {
    rounds: u32,
    reloads: u32,
    stops: u32,
    kills: u32,
    broken_clients: u32,
    rotten_bytes: u32,
}

/// The files of a run, and its server.
struct Soak {
    program: PathBuf,
    folder: PathBuf,
    policies: Vec<String>,
    server: Option<Child>,
    starts: u32,
    /// The server that is watched; 0 if there is none.
    process_id: &'static AtomicU32,
    tally: Tally,
}

/// Runs for some minutes, and judges.
pub(crate) fn run(root: &Path, minutes: f64) -> Result<()> {
    xtask::cargo(root, &["build", "--release", "--bin", "thermocline"], &[])?;
    let target = xtask::target(root);
    let folder = target.join("soak");
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).with_context(|| format!("`{}`", folder.display()))?;
    let program = target.join("release/thermocline");
    File::create(folder.join("disk.img"))?.set_len(256 << 20)?;
    let mut soak = Soak {
        policies: vec![],
        program,
        folder: folder.clone(),
        server: None,
        starts: 0,
        process_id: Box::leak(Box::default()),
        tally: Tally::default(),
    };
    soak.find_policies()?;
    let is_over: &'static AtomicBool = Box::leak(Box::default());
    let (process_id, record) = (soak.process_id, folder.join("memory.csv"));
    let watch = thread::spawn(move || watch_memory(&record, process_id, is_over));
    let deadline = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let result = soak.work(deadline);
    is_over.store(true, Ordering::Release);
    let lifetimes = watch.join().expect("watching does not panic")?;
    eprintln!("{:#?}", soak.tally);
    result?;
    judge(&lifetimes, &folder.join("memory.csv"))
}

impl Soak {
    /// Find the policies that the configuration takes.
    fn find_policies(&mut self) -> Result<()> {
        let config = self.file("cache.toml");
        self.policies = crate::torture::policies(&self.program, &config, |name| {
            self.write_config(name, "back")
        })?;
        ensure!(self.policies.len() > 5, "the engine runs {:?} only", self.policies);
        Ok(())
    }

    fn work(&mut self, deadline: Instant) -> Result<()> {
        while Instant::now() < deadline {
            self.start()?;
            for round in 0..ROUNDS_PER_START {
                self.round(round)?;
                if Instant::now() >= deadline {
                    break;
                }
            }
            // Now and then it is killed while it works; what fio wrote then is not known.
            if self.starts.is_multiple_of(3) {
                let mut fio = self.fio("killed", &[])?;
                thread::sleep(RELOAD_INTERVAL);
                self.kill()?;
                // It would try for ever.
                fio.kill()?;
                fio.wait()?;
            } else {
                self.stop()?;
                if self.starts.is_multiple_of(2) {
                    self.rot()?;
                }
            }
        }
        Ok(())
    }

    /// Verified work, while the configuration changes and other clients misbehave.
    fn round(&mut self, round: u32) -> Result<()> {
        let name = format!("round{}", self.tally.rounds);
        let readers = [
            "--name=readers",
            "--rw=randread",
            "--verify=0",
            "--io_size=200M",
            "--random_distribution=zipf:1.1",
        ];
        let mut fio = self.fio(&name, &readers)?;
        loop {
            thread::sleep(RELOAD_INTERVAL);
            if let Some(status) = fio.try_wait()? {
                ensure!(status.success(), "fio failed, see `{}.log`", self.file(&name).display());
                break;
            }
            let number = self.tally.reloads as usize;
            let policy = self.policies[number % self.policies.len()].clone();
            let mode = ["back", "back", "through", "back", "around"][number % 5];
            self.write_config(&policy, mode)?;
            self.signal("HUP")?;
            self.tally.reloads += 1;
            self.misbehave(number)?;
        }
        // Durable writes survive a kill between two rounds.
        if round == 0 {
            self.kill()?;
            self.start()?;
        }
        let mut again = self.fio(&name, &["--verify_only=1"])?;
        ensure!(again.wait()?.success(), "fio failed, see `{}.log`", self.file(&name).display());
        self.tally.rounds += 1;
        Ok(())
    }

    /// Act as a client that breaks off, or talks nonsense.
    fn misbehave(&mut self, number: usize) -> Result<()> {
        if number.is_multiple_of(2) {
            let mut client = UnixStream::connect(self.file("thermocline.sock"))?;
            let nonsense: Vec<u8> =
                (0..4096_usize).map(|byte| (byte * number).to_le_bytes()[0]).collect();
            // The server may hang up in the middle.
            drop(client.write_all(&nonsense));
        } else {
            let mut fio = self.fio("broken", &["--rw=randread", "--verify=0"])?;
            thread::sleep(RELOAD_INTERVAL / 10);
            fio.kill()?;
            fio.wait()?;
        }
        self.tally.broken_clients += 1;
        Ok(())
    }

    /// Writes dirty pages home, then damages many of the clean ones: the disk must serve them.
    fn rot(&mut self) -> Result<()> {
        let (flash, disk) = (self.file("flash.img"), self.file("disk.img"));
        let mut drain = Command::new(&self.program);
        drain.args(["cache", "drain"]).arg(&flash).arg("--backing").arg(&disk);
        ensure!(drain.stdout(Stdio::null()).status()?.success(), "the flash cannot be drained");
        let mut bytes = fs::read(&flash)?;
        // Slots are most of the flash; what lies before them is left alone.
        let first = bytes.len() / 8;
        for place in (first..bytes.len()).step_by(37 * 4096 + 13) {
            bytes[place] ^= 0x10;
            self.tally.rotten_bytes += 1;
        }
        Ok(fs::write(&flash, bytes)?)
    }

    fn fio(&self, name: &str, more: &[&str]) -> Result<Child> {
        let log =
            File::options().create(true).append(true).open(self.file(&format!("{name}.log")))?;
        let socket = self.file("thermocline.sock");
        let uri = format!("--uri=nbd+unix:///?socket={}", socket.display());
        let state = format!("--aux-path={}", self.folder.display());
        let seed = format!("--randseed={}", self.tally.rounds + 1);
        // Options before the first name are for every job.
        let words = [
            // Jobs that are processes of their own would outlive the fio that is killed.
            "--thread",
            "--ioengine=nbd",
            &uri,
            &state,
            &seed,
            "--rw=randwrite",
            "--bs=4k",
            "--size=200M",
            "--io_size=80M",
            "--iodepth=16",
            "--rate_iops=9000",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_backlog=1024",
            "--fsync=512",
            "--end_fsync=1",
            "--name=soak",
        ];
        Command::new("fio")
            .args(words)
            .args(more)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start `fio` (Debian package fio)")
    }
}

impl Soak {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("serve").arg(self.file("cache.toml"));
        command
    }

    fn write_config(&self, policy: &str, mode: &str) -> Result<()> {
        let text = format!(
            "write_mode = \"{mode}\"\nshadow = [\"lru\"]\n[backing]\npath = \"disk.img\"\n\
             [flash]\npath = \"flash.img\"\nsize = \"96MiB\"\n[ram]\nsize = \"24MiB\"\n\
             [policy]\nname = \"{policy}\"\n[nbd]\nsocket = \"thermocline.sock\"\n"
        );
        Ok(fs::write(self.file("cache.toml"), text)?)
    }

    /// Starts the server, and waits until it listens.
    fn start(&mut self) -> Result<()> {
        self.starts += 1;
        let policy = self.policies[self.starts as usize % self.policies.len()].clone();
        self.write_config(&policy, "back")?;
        let log = File::options().create(true).append(true).open(self.file("server.log"))?;
        let mut server = self.command().stderr(log).spawn()?;
        self.process_id.store(server.id(), Ordering::Release);
        let deadline = Instant::now() + PATIENCE;
        while UnixStream::connect(self.file("thermocline.sock")).is_err() {
            if let Some(status) = server.try_wait()? {
                bail!("the server ended: {status}, see `{}`", self.file("server.log").display());
            }
            ensure!(Instant::now() < deadline, "the server does not listen");
            thread::sleep(WATCH_INTERVAL / 100);
        }
        self.server = Some(server);
        Ok(())
    }

    fn signal(&self, name: &str) -> Result<()> {
        let id = self.process_id.load(Ordering::Acquire).to_string();
        ensure!(
            Command::new("kill").args(["-s", name, &id]).status()?.success(),
            "the server is gone"
        );
        Ok(())
    }

    /// Ends the server in order.
    fn stop(&mut self) -> Result<()> {
        self.signal("TERM")?;
        self.tally.stops += 1;
        let mut server = self.server.take().context("a server runs")?;
        self.process_id.store(0, Ordering::Release);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = server.try_wait()? {
                ensure!(status.success(), "the server ended: {status}");
                return Ok(());
            }
            if Instant::now() >= deadline {
                server.kill()?;
                bail!("the server does not end");
            }
            thread::sleep(WATCH_INTERVAL / 100);
        }
    }

    fn kill(&mut self) -> Result<()> {
        let mut server = self.server.take().context("a server runs")?;
        self.process_id.store(0, Ordering::Release);
        server.kill()?;
        server.wait()?;
        self.tally.kills += 1;
        Ok(())
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // It may have ended already.
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// Notes the memory of one server after the other; returns the samples of each.
fn watch_memory(
    record: &Path,
    process_id: &AtomicU32,
    is_over: &AtomicBool,
) -> Result<Vec<Vec<u64>>> {
    let mut record = File::create(record)?;
    writeln!(record, "seconds,process_id,rss_bytes")?;
    let start = Instant::now();
    let mut lifetimes: Vec<(u32, Vec<u64>)> = vec![];
    while !is_over.load(Ordering::Acquire) {
        let id = process_id.load(Ordering::Acquire);
        if let Some(rss_bytes) = (id != 0).then(|| rss_bytes(id)).flatten() {
            writeln!(record, "{},{id},{rss_bytes}", start.elapsed().as_secs())?;
            match lifetimes.last_mut() {
                Some((last, samples)) if *last == id => samples.push(rss_bytes),
                _ => lifetimes.push((id, vec![rss_bytes])),
            }
        }
        thread::sleep(WATCH_INTERVAL);
    }
    Ok(lifetimes.into_iter().map(|(_, samples)| samples).collect())
}

/// Memory that a process occupies; `None` if it is gone.
fn rss_bytes(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Check that memory is flat: in each long lifetime, the peak of the last quarter is not above
/// that of the second one by more than is allowed. Policies differ in what they need, so nothing but
/// peaks compares.
fn judge(lifetimes: &[Vec<u64>], record: &Path) -> Result<()> {
    let mut judged = 0;
    for (number, samples) in
        lifetimes.iter().enumerate().filter(|(_, one)| one.len() >= SAMPLES_MIN)
    {
        let quarter = samples.len() / 4;
        let early = peak(&samples[quarter..2 * quarter]);
        let late = peak(&samples[samples.len() - quarter..]);
        let allowed = GROWTH_BYTES + early / GROWTH_PART;
        eprintln!(
            "server {number}: {} samples, {} MiB early, {} MiB late",
            samples.len(),
            early >> 20,
            late >> 20
        );
        ensure!(late <= early + allowed, "memory grows: see `{}`", record.display());
        judged += 1;
    }
    if judged == 0 {
        eprintln!("no server ran long enough for a judgement of its memory");
    } else {
        eprintln!("memory is flat: {judged} servers, see `{}`", record.display());
    }
    Ok(())
}

fn peak(samples: &[u64]) -> u64 {
    samples.iter().copied().max().unwrap_or(0)
}
