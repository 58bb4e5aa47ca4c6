//! nbdinfo, nbdcopy, qemu-img, qemu-io and fio. A program that is not installed is named, and its
//! test does nothing.

use std::process::Command;

use thermocline_nbd::server::Settings;

use super::Running;
use super::memory::Memory;

/// Runs a program and returns what it printed; nothing if it is not installed.
pub(crate) fn run(program: &str, words: &[&str]) -> Option<String> {
    let output = match Command::new(program).args(words).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: `{program}` is not installed");
            return None;
        }
        output => output.unwrap(),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {words:?}:\n{said}\n{complained}");
    Some(said)
}

#[test]
fn nbdinfo_lists_and_describes() {
    let services = vec![("first", Memory::new(1 << 20)), ("second", Memory::new(3 << 20))];
    let running = Running::start_many(services, Settings::default(), true);
    let address = running.address.unwrap();
    let tcp = format!("nbd://{address}");
    let Some(list) = run("nbdinfo", &["--list", &tcp]) else { return };
    for line in [
        "export=\"first\":",
        "export=\"second\":",
        "export-size: 3145728",
        "description: bytes in memory",
        "base:allocation",
        "thermocline:tier",
        "can_multi_conn: true",
        "can_fast_zero: true",
        "block_size_preferred: 4096",
    ] {
        assert!(list.contains(line), "{line} is not in\n{list}");
    }
    let unix = format!("nbd+unix:///second?socket={}", running.socket().display());
    assert_eq!(run("nbdinfo", &["--size", &unix]).unwrap().trim(), "3145728");
}

#[test]
fn maps_show_zeroes_and_tiers() {
    let running = Running::start(Memory::new(1 << 20), Settings::default());
    running.client().write(128 << 10, &[1; 1000]).unwrap();
    let columns = |text: String| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let Some(map) = run("nbdinfo", &["--map", &running.uri()]) else { return };
    let map = columns(map);
    assert_eq!(map[0], ["0", "131072", "3", "hole,zero"]);
    assert_eq!(map[1], ["131072", "65536", "0", "data"]);
    assert_eq!(map[2], ["196608", "851968", "3", "hole,zero"]);
    let tiers = columns(run("nbdinfo", &["--map=thermocline:tier", &running.uri()]).unwrap());
    assert_eq!(tiers, [["0", "131072", "0"], ["131072", "65536", "5"], ["196608", "851968", "0"]]);
}

#[test]
fn qemu_reads_back_what_it_writes() {
    let running = Running::start(Memory::new(16 << 20).delayed(2), Settings::default());
    let uri = running.uri();
    let script = [
        "write -P 7 1M 5M",
        "read -P 7 1M 5M",
        "write -f -P 8 3 1",
        "read -P 8 3 1",
        "flush",
        "discard 2M 1M",
        "read -P 0 2M 1M",
        "write -z 4M 64k",
        "write -z -u 5M 64k",
        "read -P 0 4M 64k",
        "read -P 7 4160k 64k",
    ];
    let mut words = vec!["-f", "raw"];
    words.extend(script.iter().flat_map(|line| ["-c", *line]));
    words.push(&uri);
    let Some(said) = run("qemu-io", &words) else { return };
    assert!(!said.contains("verification failed"), "{said}");
    // Its exit status does not say so.
    assert!(!said.contains("error"), "{said}");
    let map = run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]).unwrap();
    assert!(map.contains("\"start\": 1048576, \"length\": 1048576"), "{map}");
}

#[test]
fn an_image_goes_in_and_comes_out() {
    let running = Running::start(Memory::new(8 << 20), Settings::default());
    let folder = tempfile::tempdir().unwrap();
    let [image, copy, other] =
        ["image", "copy", "other"].map(|name| folder.path().join(name).display().to_string());
    let bytes: Vec<u8> = (0..8_u64 << 20)
        .map(|place| if place % (1 << 20) < (1 << 19) { 0 } else { (place >> 3).to_le_bytes()[0] })
        .collect();
    std::fs::write(&image, &bytes).unwrap();
    if run("nbdcopy", &["--connections=4", &image, &running.uri()]).is_some() {
        run("nbdcopy", &["--connections=4", &running.uri(), &copy]);
        assert!(std::fs::read(&copy).unwrap() == bytes, "nbdcopy");
    }
    let convert = ["convert", "-n", "-f", "raw", "-O", "raw", &image, &running.uri()];
    if run("qemu-img", &convert).is_some() {
        run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &running.uri(), &other]);
        assert!(std::fs::read(&other).unwrap() == bytes, "qemu-img");
    }
}

#[test]
fn fio_verifies_random_sizes() {
    for delay_drives in [0, 3] {
        let service = Memory::new(8 << 20).delayed(delay_drives);
        let running = Running::start(service, Settings::default());
        let uri = format!("--uri={}", running.uri());
        let folder = tempfile::tempdir().unwrap();
        let state = format!("--aux-path={}", folder.path().display());
        run(
            "fio",
            &[
                "--name=verify",
                "--ioengine=nbd",
                &uri,
                &state,
                "--rw=randrw",
                "--bsrange=512-128k",
                "--bs_unaligned=1",
                "--size=8M",
                "--io_size=32M",
                "--iodepth=16",
                "--verify=crc32c",
                "--verify_fatal=1",
                "--fsync=8",
            ],
        );
    }
}
