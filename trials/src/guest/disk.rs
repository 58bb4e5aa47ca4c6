//! A guest that boots from a disk of `thermocline serve`, by vhost-user-blk, with the server restarted
//! under it.
//!
//! Two starts: the first makes a file system on the disk and copies programs there; the second has its root
//! there, and writes with `fio --verify` while the server is restarted as often as there are rounds.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use super::Options;
use super::boot::{self, Guest};
use super::image::Image;
use super::kernel::{self, Kernel};
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
    boot::check_qemu()?;
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
        let machine = [
            "-smp 2 -machine pc -accel tcg -m 512M",
            "-object memory-backend-memfd,id=memory,size=512M,share=on -numa node,memdev=memory",
            "-device vhost-user-blk-pci,chardev=cache",
        ];
        let mut machine: Vec<String> =
            machine.iter().flat_map(|words| words.split(' ')).map(ToOwned::to_owned).collect();
        let socket = self.path("vhost.sock");
        machine.push("-chardev".to_owned());
        machine.push(format!("socket,id=cache,path={},reconnect=1", socket.display()));
        let guest = Guest {
            kernel: self.kernel,
            archive: self.archive,
            console: self.path(&format!("console.{phase}")),
            machine,
            words: &format!("phase={phase}"),
        };
        let mut restarts = 0;
        let text = guest.run_to(last, self.deadline, |text| {
            if text.lines().filter(|line| line.starts_with("@restart")).count() > restarts {
                restarts += 1;
                end(&mut server)?;
                server = self.serve(restarts)?;
            }
            Ok(())
        })?;
        Ok((text, server))
    }
}

/// Ends a server in order.
fn end(server: &mut Server) -> Result<()> {
    server.terminate()?;
    let status = server.wait()?;
    ensure!(status.success(), "the server ended with {status}:\n{}", server.log());
    Ok(())
}
