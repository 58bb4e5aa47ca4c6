//! Real file systems and databases on a cache: a loop device over a file that nbdfuse makes of the
//! export. The engine is killed in the middle of their work; afterwards everything that they were
//! promised is there. Needs root.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use thermocline_core::random::SplitMix64;

use super::{Cache, Engine};

/// Files are written for so long before the engine is killed.
const WORK: Duration = Duration::from_millis(1500);

/// Runs a program, and ends it if it hangs, as programs on dead devices do.
fn run(words: &[&str]) -> Output {
    Command::new("timeout").arg("300").args(words).output().unwrap()
}

/// Return the same, of a program that must succeed; returns what it printed.
#[track_caller]
fn must(words: &[&str]) -> String {
    let output = run(words);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{said}\n{complained}", output.status);
    said
}

/// Return `true` if all of it is there: root, a loop device, and the programs, each with its Debian
/// package.
fn can_mount(programs: &[(&str, &str)]) -> bool {
    let wanted = [("nbdfuse", "libnbd-bin"), ("losetup", "mount")];
    for &(program, package) in wanted.iter().chain(programs) {
        if run(&["sh", "-c", &format!("command -v {program}")]).stdout.is_empty() {
            eprintln!("skipped: `{program}` is not installed (Debian package {package})");
            return false;
        }
    }
    let is_able = Path::new("/dev/fuse").exists() && run(&["losetup", "--find"]).status.success();
    if !is_able || must(&["id", "-u"]).trim() != "0" {
        eprintln!("skipped: only root can mount, with FUSE and loop devices");
        return false;
    }
    true
}

/// A mounted file system on the export of an engine.
struct Mounted {
    nbdfuse: Child,
    device: String,
    folder: PathBuf,
    /// Root of the file system.
    root: PathBuf,
}

impl Mounted {
    /// Attaches an engine's export, and mounts what `prepare` leaves on the device.
    fn mount(cache: &Cache, engine: &Engine, prepare: impl FnOnce(&str)) -> Self {
        let (folder, root) = (cache.path("fuse"), cache.path("mounted"));
        for folder in [&folder, &root] {
            fs::create_dir_all(folder).unwrap();
        }
        let file = folder.join("disk");
        let nbdfuse = Command::new("nbdfuse")
            .args([file.to_str().unwrap(), &engine.uri()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        engine.wait_for("nbdfuse", || file.exists().then_some(()));
        let device = must(&["losetup", "--find", "--show", file.to_str().unwrap()]);
        let device = device.trim().to_owned();
        let mounted = Self { nbdfuse, device, folder, root };
        prepare(&mounted.device);
        must(&["mount", &mounted.device, mounted.root.to_str().unwrap()]);
        mounted
    }

    /// Unmounts in order, lets `check` see the device, and detaches it.
    fn unmount(self, check: impl FnOnce(&str)) {
        must(&["umount", self.root.to_str().unwrap()]);
        check(&self.device);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After a crash these fail in parts: each is told, and none waited for.
        for words in [
            ["umount", "-l", self.root.to_str().unwrap()],
            ["losetup", "-d", &self.device],
            ["umount", "-l", self.folder.to_str().unwrap()],
        ]
        .map(|words| [&["timeout", "20"][..], &words].concat())
        {
            drop(run(&words));
        }
        drop(self.nbdfuse.kill());
        drop(self.nbdfuse.wait());
    }
}

/// Return a cache that a file system fits.
fn cache() -> Cache {
    let mut cache = Cache::new(320);
    cache.set("flash.size", "48MiB").set("ram.size", "8MiB");
    cache
}

/// Return the bytes of the file of that number.
fn content(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let length = usize::try_from(random.bits() % 100_000).unwrap();
    let mut bytes = vec![0; length];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&random.bits().to_le_bytes()[..word.len()]);
    }
    bytes
}

/// Writes files, and syncs two of three, until that fails; returns the synced ones.
fn write_files(root: &Path) -> Vec<u64> {
    let mut synced = vec![];
    for number in 0..100_000 {
        let write = || -> std::io::Result<bool> {
            let mut file = File::create(root.join(number.to_string()))?;
            file.write_all(&content(number))?;
            if number % 3 == 0 {
                return Ok(false);
            }
            file.sync_all()?;
            File::open(root)?.sync_all()?;
            Ok(true)
        };
        match write() {
            Ok(true) => synced.push(number),
            Ok(false) => {}
            Err(_) => break,
        }
    }
    synced
}

/// Kills an engine while files are written to it; afterwards the synced ones are whole.
fn files_survive(make: &[&str], check: &[&str]) {
    let cache = cache();
    let engine = cache.start();
    let with = |words: &[&str], device: &str| {
        must(&[words, &[device]].concat());
    };
    let mounted = Mounted::mount(&cache, &engine, |device| with(make, device));
    let root = mounted.root.clone();
    let writer = thread::spawn(move || write_files(&root));
    thread::sleep(WORK);
    engine.kill();
    let synced = writer.join().unwrap();
    drop(mounted);
    assert!(synced.len() >= 10, "{} files were synced", synced.len());

    let engine = cache.start();
    // Mounting replays the file system's own journal.
    let mounted = Mounted::mount(&cache, &engine, |_| {});
    for &number in &synced {
        let found = fs::read(mounted.root.join(number.to_string())).unwrap();
        assert!(found == content(number), "file {number} of {}", synced.len());
    }
    fs::write(mounted.root.join("more"), content(1)).unwrap();
    mounted.unmount(|device| with(check, device));
    engine.stop();
}

#[test]
fn ext4_survives_a_killed_engine() {
    if can_mount(&[("mkfs.ext4", "e2fsprogs")]) {
        files_survive(&["mkfs.ext4", "-q"], &["e2fsck", "-fn"]);
    }
}

#[test]
fn xfs_survives_a_killed_engine() {
    if can_mount(&[("mkfs.xfs", "xfsprogs")]) {
        files_survive(&["mkfs.xfs", "-q"], &["xfs_repair", "-n"]);
    }
}

/// Commits transactions of ten rows each until that fails; returns the last one that was committed.
fn commit_rows(database: &Path) -> u32 {
    // It ends at the first error: where the last step of a COMMIT fails (the sync of the folder that
    // the rollback journal was removed from), a SELECT after it sees the rows all the same.
    let mut sqlite = Command::new("sqlite3")
        .args(["-batch", "-bail"])
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = sqlite.stdin.take().unwrap();
    let mut output = BufReader::new(sqlite.stdout.take().unwrap()).lines();
    let mut committed = 0;
    // Without the first, the end of a transaction may be undone by a crash that follows closely.
    input.write_all(b"PRAGMA synchronous=EXTRA;\n").unwrap();
    for number in 1..100_000_u32 {
        let rows: Vec<String> =
            (0..10).map(|row| format!("({number}, {row}, hex(randomblob(500)))")).collect();
        let text = format!(
            "BEGIN; INSERT INTO t VALUES {}; COMMIT;\nSELECT max(number) FROM t;\n.print done\n",
            rows.join(", ")
        );
        if input.write_all(text.as_bytes()).is_err() {
            break;
        }
        let lines: Vec<String> =
            output.by_ref().map_while(Result::ok).take_while(|line| line != "done").collect();
        if lines != [number.to_string()] {
            break;
        }
        committed = number;
    }
    drop(input);
    drop(sqlite.kill());
    sqlite.wait().unwrap();
    committed
}

#[test]
fn sqlite_survives_a_killed_engine() {
    sqlite_survives("wal");
}

#[test]
fn sqlite_with_a_rollback_journal_survives_a_killed_engine() {
    sqlite_survives("delete");
}

fn sqlite_survives(mode: &str) {
    if !can_mount(&[("mkfs.ext4", "e2fsprogs"), ("sqlite3", "sqlite3")]) {
        return;
    }
    let cache = cache();
    let mut engine = cache.start();
    let mut mounted = Mounted::mount(&cache, &engine, |device| {
        must(&["mkfs.ext4", "-q", device]);
    });
    let database = mounted.root.join(mode);
    let file = database.to_str().unwrap().to_owned();
    let schema = "CREATE TABLE t (number INT, row INT, noise TEXT)";
    must(&["sqlite3", &file, &format!("PRAGMA journal_mode={mode}; {schema};")]);
    // The names of new files are durable, too.
    must(&["sync", "-f", &file]);
    let path = database;
    let writer = thread::spawn(move || commit_rows(&path));
    thread::sleep(WORK);
    engine.kill();
    let committed = writer.join().unwrap();
    drop(mounted);
    assert!(committed >= 5, "{mode}: {committed} transactions were committed");
    engine = cache.start();
    mounted = Mounted::mount(&cache, &engine, |_| {});
    let ask = |question: &str| must(&["sqlite3", &file, question]).trim().to_owned();
    assert_eq!(ask("PRAGMA integrity_check"), "ok", "{mode}");
    let last: u32 = ask("SELECT max(number) FROM t").parse().unwrap();
    assert!(last >= committed, "{mode}: {committed} were committed, {last} are there");
    let rows = "SELECT count(*), count(DISTINCT number), min(length(noise)) FROM t";
    assert_eq!(ask(rows), format!("{}|{last}|1000", last * 10), "{mode}: whole transactions");
    mounted.unmount(|device| drop(must(&["e2fsck", "-fn", device])));
    engine.stop();
}

/// A PostgreSQL whose data lie on the mounted file system.
struct Postgres {
    programs: PathBuf,
    data: String,
    /// Folder of its socket.
    folder: String,
}

impl Postgres {
    /// Return the newest that is installed.
    fn find(cache: &Cache, root: &Path) -> Option<Self> {
        let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
            .filter(|programs| programs.join("initdb").exists())
            .collect();
        versions.sort();
        let Some(programs) = versions.pop() else {
            eprintln!("skipped: `initdb` is not installed (Debian package postgresql)");
            return None;
        };
        let folder = cache.file("sockets");
        let data = root.join("data").display().to_string();
        Some(Self { programs, data, folder })
    }

    /// Return a program of it, run as its user.
    fn words<'a>(&self, program: &'a str, words: &[&'a str]) -> Vec<String> {
        let program = self.programs.join(program).display().to_string();
        let command = ["runuser", "-u", "postgres", "--", &program];
        command.iter().chain(words).map(|&word| word.to_owned()).collect()
    }

    #[track_caller]
    fn run(&self, program: &str, words: &[&str]) -> String {
        let words = self.words(program, words);
        must(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Starts it; until all processes of a former run are gone, it refuses.
    fn start(&self) {
        let options = format!("-c listen_addresses= -c unix_socket_directories={}", self.folder);
        let log = format!("{}/log", self.folder);
        let words = ["-D", &self.data, "-w", "-o", &options, "-l", &log, "start"];
        let words = self.words("pg_ctl", &words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_up = (0..20).any(|_| {
            let is_up = run(&words).status.success();
            if !is_up {
                thread::sleep(WORK / 3);
            }
            is_up
        });
        assert!(is_up, "{}", fs::read_to_string(log).unwrap_or_default());
    }

    fn stop(&self) {
        self.run("pg_ctl", &["-D", &self.data, "-m", "fast", "-w", "stop"]);
    }

    /// Return the number of its first process.
    fn process_id(&self) -> String {
        let file = fs::read_to_string(Path::new(&self.data).join("postmaster.pid")).unwrap();
        file.lines().next().unwrap().to_owned()
    }

    fn ask(&self, question: &str) -> String {
        self.run("psql", &["-h", &self.folder, "-d", "postgres", "-Atc", question]).trim().into()
    }
}

#[test]
fn postgres_survives_a_killed_engine() {
    if !can_mount(&[("mkfs.ext4", "e2fsprogs"), ("runuser", "util-linux")]) {
        return;
    }
    let cache = cache();
    let engine = cache.start();
    let mounted =
        Mounted::mount(&cache, &engine, |device| drop(must(&["mkfs.ext4", "-q", device])));
    let Some(postgres) = Postgres::find(&cache, &mounted.root) else { return };
    fs::create_dir(&postgres.folder).unwrap();
    fs::create_dir(&postgres.data).unwrap();
    let user: u32 = must(&["id", "-u", "postgres"]).trim().parse().unwrap();
    for folder in [&postgres.folder, &postgres.data] {
        chown(folder, Some(user), Some(user)).unwrap();
    }
    // The user reaches the folders below the one of the test.
    must(&["chmod", "o+x", &cache.file("")]);
    postgres.run("initdb", &["-D", &postgres.data, "-A", "trust", "--no-instructions"]);
    postgres.start();
    let database = ["-h", &postgres.folder, "postgres"];
    postgres.run("pgbench", &[&["-i", "-q", "-s", "1"], &database[..]].concat());
    postgres.run("psql", &["-h", &postgres.folder, "-d", "postgres", "-c", "CHECKPOINT"]);

    let log = format!("{}/transactions", postgres.folder);
    let job = ["-c", "4", "-T", "30", "-n", "-l", "--log-prefix", &log];
    let words = postgres.words("pgbench", &[&job[..], &database].concat());
    let mut bench = Command::new("timeout")
        .arg("60")
        .args(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(2 * WORK);
    let process_id = postgres.process_id();
    engine.kill();
    bench.wait().unwrap();
    // Without its files it cannot be asked to end.
    drop(run(&["kill", "-9", &process_id]));
    drop(mounted);
    let logs = fs::read_dir(&postgres.folder).unwrap().map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.to_str().unwrap().starts_with(&log));
    let acknowledged: usize =
        logs.map(|path| fs::read_to_string(path).unwrap().lines().count()).sum();
    assert!(acknowledged >= 10, "{acknowledged} transactions were committed");

    let engine = cache.start();
    let mounted = Mounted::mount(&cache, &engine, |_| {});
    postgres.start();
    let sum = |table: &str, column: &str| {
        postgres.ask(&format!("SELECT coalesce(sum({column}), 0) FROM pgbench_{table}"))
    };
    let total = sum("accounts", "abalance");
    for (table, column) in [("tellers", "tbalance"), ("branches", "bbalance"), ("history", "delta")]
    {
        assert_eq!(sum(table, column), total, "{table}");
    }
    let found: usize = postgres.ask("SELECT count(*) FROM pgbench_history").parse().unwrap();
    assert!(found >= acknowledged, "{acknowledged} were committed, {found} are there");
    postgres.run(
        "pg_amcheck",
        &["-h", &postgres.folder, "-d", "postgres", "--install-missing", "--heapallindexed"],
    );
    postgres.stop();
    mounted.unmount(|device| drop(must(&["e2fsck", "-fn", device])));
    engine.stop();
}
