//! Caches put together from an algorithm for RAM and one for flash.

use super::{TRACE, fails, json};

const SIZES: [&str; 4] = ["--tier", "ram=2%", "--tier", "flash=4x"];

fn words<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[command, TRACE, "--page-size", "8KiB"], &SIZES[..], more].concat()
}

#[test]
fn words_are_parameters_of_two_tier() {
    let by_words = words(
        "simulate",
        &[
            "--ram-policy=s3-fifo",
            "--flash-policy=sieve",
            "--inclusion=exclusive",
            "--admission=probabilistic:0.5",
            "--check",
            "--json",
        ],
    );
    let by_parameters = words(
        "simulate",
        &[
            "--policy=two-tier",
            "--param=ram=s3-fifo",
            "--param=flash=sieve",
            "--param=inclusion=exclusive",
            "--param=probability=0.5",
            "--check",
            "--json",
        ],
    );
    let [by_words, by_parameters] = [by_words, by_parameters].map(|words| json(&words));
    assert_eq!(by_words["policy"]["name"], "two-tier");
    for key in ["policy", "tiers", "io_time_ms"] {
        assert_eq!(by_words[key], by_parameters[key], "{key}");
    }
}

#[test]
fn each_admission_writes_less_to_flash_than_all() {
    let flash_writes = |admission: &str| {
        let more = ["--ram-policy", "lru", "--admission", admission, "--check", "--json"];
        json(&words("simulate", &more))["tiers"][1]["page_writes"].as_u64().unwrap()
    };
    let all = flash_writes("all");
    for admission in ["second-access", "probabilistic:0.2", "tinylfu", "mbf"] {
        let some = flash_writes(admission);
        assert!(0 < some && some < all, "{admission}: {some} of {all}");
    }
    assert_eq!(flash_writes("probabilistic:1"), all);
}

#[test]
fn they_stand_beside_others() {
    let more = ["--policy", "hat,face-gsc", "--flash-policy", "fifo", "--json"];
    let compared = json(&words("compare", &more));
    let names = compared.as_array().unwrap().iter().map(|run| run["policy"]["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["hat", "face-gsc", "two-tier"]);
    let alone = json(&words("compare", &["--ram-policy", "arc", "--json"]));
    assert_eq!(alone.as_array().unwrap().len(), 1);
    let curves = json(&[
        "mrc",
        TRACE,
        "--page-size=8KiB",
        "--sizes=1%,2%",
        "--flash-sizes=4x",
        "--ram-policy=arc",
        "--admission=mbf",
        "--json",
    ]);
    let policies = curves["curves"].as_array().unwrap().iter().map(|curve| curve["policy"].clone());
    assert!(policies.collect::<Vec<_>>().contains(&"two-tier".into()));
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    for (more, says) in [
        (vec!["--policy", "hat", "--ram-policy", "lru"], "leave --policy out"),
        (vec!["--ram-policy", "arcc"], "arcc"),
        (vec!["--flash-policy", "sieve", "--admission", "tinylfu"], "--flash-policy lru"),
        (vec!["--ram-policy", "lru", "--admission", "probabilistic"], "probabilistic:0.2"),
        (vec!["--ram-policy", "lru", "--admission", "probabilistic:2"], "from 0 to 1"),
        (vec!["--ram-policy", "lru", "--admission", "all:2"], "only `probabilistic`"),
        (vec!["--ram-policy", "lru", "--admission", "maybe"], "second-access"),
        (vec!["--ram-policy", "lru", "--admission", "mbf", "--admit", "mhf"], "--admit"),
        (vec![], "--ram-policy"),
    ] {
        fails(&words("simulate", &more), &[says]);
    }
}
