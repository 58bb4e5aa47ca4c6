//! Long runs against what is real: `cargo xtask soak`, `torture` and `guest`.
//!
//! They are a package of their own so that the task runner depends on none of the project's crates, and
//! is built in seconds.
#![allow(clippy::print_stderr, reason = "who waits is told what happens")]

mod guest;
mod soak;
mod torture;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "Long runs against what is real")]
struct Arguments {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    /// Serve verified load for long, with restarts, kills and faults, and judge memory; needs fio
    Soak {
        /// Duration, in minutes
        #[arg(long, default_value_t = 60.0)]
        minutes: f64,
    },
    /// Serve from files that fail on command, cut the power, and check every sector that clients read; needs FUSE
    Torture {
        /// Duration, in minutes
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Seed of the faults and the load
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Write the figures to this file, too
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// A `thermocline` that is built already
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
        /// Only rounds with this fault, by its name in the table of the figures
        #[arg(long, value_name = "NAME")]
        fault: Option<String>,
    },
    /// Run dm-cache and bcache of a real kernel in QEMU under the traces that their models replay, and compare
    /// counters; or boot a guest from a disk of `thermocline serve`, or serve a block device in one
    Guest {
        /// Boot a guest from a disk that `thermocline serve` has by vhost-user-blk, and restart the server meanwhile
        #[arg(long, group = "served", conflicts_with = "console")]
        disk: bool,
        /// Serve a block device in the guest by ublk, kill the server meanwhile, and count instructions beside NBD
        #[arg(long, group = "served", conflicts_with = "console")]
        ublk: bool,
        /// A `thermocline` that is built already, for `--disk` and `--ublk`
        #[arg(long, value_name = "FILE", requires = "served")]
        program: Option<PathBuf>,
        /// A kernel package of Debian, or the folder that it was unpacked to
        #[arg(long, value_name = "PATH")]
        kernel: Option<PathBuf>,
        /// Compare with what an earlier guest printed, `console.txt` of `--keep`, and run none
        #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
        console: Option<PathBuf>,
        /// Only cases whose names contain this text, such as `zipf:dm-cache,64k`, or with `--ublk` `hat` or `count:`
        #[arg(long = "case", value_name = "TEXT", default_value = "")]
        filter: String,
        /// Accesses of each trace
        #[arg(long, value_name = "N", default_value_t = 30_000)]
        accesses: usize,
        /// End the guest after so long
        #[arg(long, default_value_t = 60.0)]
        minutes: f64,
        /// Write consoles, and what is made of them, to this folder
        #[arg(long, value_name = "FOLDER")]
        keep: Option<PathBuf>,
    },
}

fn main() -> Result<()> {
    let root = xtask::root()?;
    match Arguments::parse().trial {
        Trial::Soak { minutes } => soak::run(&root, minutes),
        Trial::Torture { minutes, seed, json, program, fault } => {
            torture::run(&root, &torture::Options { minutes, seed, json, program, fault })
        }
        Trial::Guest { disk, ublk, program, kernel, console, filter, accesses, minutes, keep } => {
            let subject = match (disk, ublk) {
                (true, _) => guest::Subject::Disk,
                (false, true) => guest::Subject::Ublk,
                (false, false) => guest::Subject::Caches,
            };
            let options = guest::Options {
                subject,
                program,
                kernel,
                console,
                accesses,
                filter,
                minutes,
                keep,
            };
            guest::run(&root, &options)
        }
    }
}
