//! A guest that boots from a disk of `thermocline serve`, by vhost-user-blk, with the server restarted
//! under it.
//!
//! Two starts: the first makes a file system on the disk and copies programs there; the second has its root
//! there, and writes with `fio --verify` while the server is restarted as often as there are rounds.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::image::{self, Image};
use super::kernel::{self, Kernel};
use super::{Options, POLL_INTERVAL, QEMU};
use crate::torture::server::{self, Server, Started};

const INIT: &str = include_str!("disk.sh");
/// Script of the guest once its root is on the disk.
const RUN: &str = include_str!("disk_run.sh");
const MODULES: [&str; 3] = ["crc32c_generic", "virtio_blk", "ext4"];
const PROGRAMS: [(&str, &str); 3] =
    [("fio", "fio"), ("mkfs.ext4", "e2fsprogs"), ("busybox", "busybox-static")];
/// Bytes of the disk.
const DISK_BYTES: u64 = 256 << 20;

/// Policies and numbers of shards, each with a guest of its own.
const CASES: [(&str, u16); 3] = [("lc", 1), ("hat", 2), ("lru-exclusive", 1)];

/// Boots a guest for each case.
///
/// # Errors
/// If something is missing, or a guest says that it found other bytes, or does not end in time.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let given = options.kernel.as_deref();
    let given = given.with_context(|| format!("`--kernel`: {}", kernel::REMEDY))?;
    ensure!(
        image::find(QEMU).is_some(),
        "{QEMU} is not installed; install it with `apt-get install qemu-system-x86`"
    );
    let scratch = tempfile::Builder::new().prefix("guest-").tempdir()?;
    let kernel = Kernel::find(given, scratch.path())?;
    let mut files = Image::default();
    files.file("init", INIT.as_bytes());
    files.file("usr/init.run", RUN.as_bytes());
    files.programs(&PROGRAMS)?;
    kernel.add_modules(&mut files, &MODULES)?;
    let archive = scratch.path().join("initramfs");
    fs::write(&archive, files.finish()).context("cannot write the guest's files")?;
    let program = server::program(root, options.program.as_ref())?;
    let deadline = Instant::now() + Duration::from_secs_f64(options.minutes * 60.0);
    for (policy, shards) in CASES {
        let folder = scratch.path().join(policy);
        fs::create_dir(&folder)?;
        let case = Case { folder, program: &program, kernel: &kernel, archive: &archive, deadline };
        let name = format!("{policy}, {shards} shards");
        let told = case.run(policy, shards).with_context(|| name.clone())?;
        eprintln!("{name}: {told}");
    }
    Ok(())
}

struct Case<'a> {
    folder: PathBuf,
    program: &'a Path,
    kernel: &'a Kernel,
    archive: &'a Path,
    deadline: Instant,
}

impl Case<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn run(&self, policy: &str, shards: u16) -> Result<String> {
        File::create(self.path("disk.img"))?.set_len(DISK_BYTES)?;
        let config = format!(
            "shards = {shards}\n[backing]\npath = \"disk.img\"\n[flash]\npath = \"flash.img\"\n\
             size = \"64MiB\"\n[ram]\nsize = \"16MiB\"\n[policy]\nname = \"{policy}\"\n\
             [vhost_user]\nsocket = \"vhost.sock\"\n"
        );
        fs::write(self.path("cache.toml"), config)?;
        let server = self.serve(0)?;
        let (_, server) = self.boot("install", server, "@installed")?;
        let (console, mut server) = self.boot("boot", server, "@finished")?;
        end(&mut server)?;
        let restarts = console.lines().filter(|line| line.starts_with("@restart")).count();
        ensure!(restarts > 0, "the guest asked for no restart");
        let disk = console.lines().find_map(|line| line.trim().strip_prefix("@verified "));
        let root = console.lines().find_map(|line| line.trim().strip_prefix("@root "));
        Ok(format!(
            "its root is on {}, {restarts} restarts, {} verified",
            root.context("the guest did not boot from the disk")?,
            disk.context("nothing was verified")?
        ))
    }

    fn serve(&self, number: usize) -> Result<Server> {
        let log = self.path(&format!("log.{number}"));
        let config = self.path("cache.toml");
        match Server::start(self.program, &config, &log, &self.path("vhost.sock"))? {
            Started::Ready(server) => Ok(server),
            Started::Refused(log) => bail!("the server was refused:\n{log}"),
        }
    }

    /// Runs the guest until it ends, and restarts the server as often as the guest asks for.
    fn boot(&self, phase: &str, mut server: Server, last: &str) -> Result<(String, Server)> {
        let console = self.path(&format!("console.{phase}"));
        let mut guest = self.start(phase, &console)?;
        let mut restarts = 0;
        let status = loop {
            if let Some(status) = guest.try_wait()? {
                break status;
            }
            if Instant::now() >= self.deadline {
                guest.kill()?;
                guest.wait()?;
                bail!("the guest did not end in time; give it more with `--minutes`");
            }
            let text = read(&console);
            if text.lines().filter(|line| line.starts_with("@restart")).count() > restarts {
                restarts += 1;
                end(&mut server)?;
                server = self.serve(restarts)?;
            }
            thread::sleep(POLL_INTERVAL);
        };
        let text = read(&console);
        let has_failed = text.lines().any(|line| line.starts_with("@fail"));
        let is_over = text.lines().any(|line| line.trim() == last);
        let words = super::console::last_lines(&text);
        let errors = read(&console.with_extension("errors"));
        ensure!(status.success() && is_over && !has_failed, "{status}\n{errors}\n{words}");
        Ok((text, server))
    }

    fn start(&self, phase: &str, console: &Path) -> Result<Child> {
        let socket = self.path("vhost.sock");
        Command::new(QEMU)
            .args(["-nodefaults", "-display", "none", "-no-reboot", "-smp", "2"])
            .args(["-machine", "pc", "-accel", "tcg", "-m", "512M"])
            .args(["-object", "memory-backend-memfd,id=memory,size=512M,share=on"])
            .args(["-numa", "node,memdev=memory"])
            .arg("-chardev")
            .arg(format!("socket,id=cache,path={},reconnect=1", socket.display()))
            .args(["-device", "vhost-user-blk-pci,chardev=cache"])
            .arg("-append")
            .arg(format!("console=ttyS0 quiet loglevel=3 panic=-1 phase={phase}"))
            .arg("-serial")
            .arg(format!("file:{}", console.display()))
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.archive)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(console.with_extension("errors"))?)
            .spawn()
            .with_context(|| format!("cannot start {QEMU}"))
    }
}

/// Ends a server in order.
fn end(server: &mut Server) -> Result<()> {
    server.terminate()?;
    let status = server.wait()?;
    ensure!(status.success(), "the server ended with {status}:\n{}", server.log());
    Ok(())
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}
