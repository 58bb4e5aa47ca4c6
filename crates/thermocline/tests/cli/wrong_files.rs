//! Any file in place of one that a person writes: a sentence, and nothing of its content.

use super::{SHORT, fails};

#[test]
fn a_file_of_another_kind_is_refused_in_a_sentence() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (file, study, out) = (path("file.toml"), path("study"), path("out"));
    std::fs::create_dir(&study).unwrap();
    let mut noise = thermocline_core::random::SplitMix64::new(1);
    let random: Vec<u8> = (0..100_000).flat_map(|_| noise.bits().to_le_bytes()).collect();
    let long = format!("size = 3\nname = \"{}\"\n", "x".repeat(1 << 20));
    for (bytes, said) in [
        (vec![0; 1 << 20], "it is not a text file"),
        (random, "it is not a text file"),
        (long.into_bytes(), "line 2 has more than 64 KiB"),
    ] {
        std::fs::write(&file, &bytes).unwrap();
        std::fs::write(path("study/study.toml"), &bytes).unwrap();
        let sizes = ["--tier", "ram=10%", "--tier", "flash=20%"];
        for words in [
            &["sweep", &file, "-o", &out][..],
            &["corpus", "check", &file],
            &[&["corpus", "run", &file, "--policy", "lru", "-o", &out][..], &sizes].concat(),
            &["artifact", &study],
            &["devices", "--devices", &file],
            &[&["simulate", &SHORT, "--policy", "hat", "--devices", &file][..], &sizes].concat(),
            &[&["simulate", &SHORT, "--policy", "hat", "--columns", &file][..], &sizes].concat(),
            &["buffer", &SHORT, "--policy", "lru", "--size", "64", "--ssd", &file],
            &["serve", "--check", &file],
        ] {
            let error = fails(words, &[said]);
            assert!(error.len() < 400, "{words:?}: {error}");
            assert!(!std::path::Path::new(&out).exists(), "{words:?} left a file");
        }
    }
}
