//! Benchmarks: two things in one run, and their ratio.
//!
//! `cargo xtask bench` measures reading and replay, `cargo xtask bench -- peers` the policies of one
//! tier beside libCacheSim's, `cargo xtask bench -- identifiers` the hot-data identifiers,
//! `cargo xtask bench -- ssd` the SSD model, `cargo xtask bench -- papers` the policies of the papers
//! beside LRU, `cargo xtask bench -- tiers` D-HFA on three tiers,
//! `cargo xtask bench -- kv` prompts of language models through tiers,
//! `cargo xtask bench -- sweep` a sweep on several threads, `cargo xtask bench -- nbd` NBD servers,
//! `cargo xtask bench -- shadow` shadow policies, `cargo xtask bench -- capture` the conversion of
//! strace's lines, `cargo xtask bench -- at-rest` starting from a flash and draining it,
//! `cargo xtask bench -- shares` RAM or flash that moves between two caches,
//! `cargo xtask bench -- advise` what advice says of the first half of a trace beside what the second is,
//! `cargo xtask bench -- auto` the policy that chooses beside those it chooses from,
//! `cargo xtask bench -- placement` identifiers that choose placement handles of an SSD,
//! `cargo xtask bench -- hybrids` flash tiers on drives with placement handles,
//! `cargo xtask bench -- two-hosts` two hosts that cooperate over a wire with a delay,
//! `cargo xtask bench -- profile` traces generated from profiles beside those that they were made of.
//! None is a timed test.
#![allow(clippy::print_stdout, reason = "a benchmark prints its ratios")]

mod advise;
mod at_rest;
mod auto;
mod bypass;
mod capture;
mod hca;
mod hybrids;
mod identifiers;
mod kv;
mod measure;
mod nbd;
mod papers;
mod peers;
mod placement;
mod profile;
mod replay;
mod shadow;
mod shares;
mod ssd;
mod sweep;
mod tiers;
mod two_hosts;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measures, and prints ratios")]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Reading and replay, beside cat, wc -l and libCacheSim
    Replay(replay::Arguments),
    /// The policies of the papers beside LRU: speed, and instructions
    Papers(papers::Arguments),
    /// The policies of one tier, beside libCacheSim's
    Peers(peers::Arguments),
    /// Time and instructions of every hot-data identifier
    Identifiers(identifiers::Arguments),
    /// Sequential bypass beside none: time on models of devices, and flash writes
    Bypass(bypass::Arguments),
    /// Compare identifiers that place writes on a drive with placement handles, per byte of their
    /// memory
    Placement(placement::Arguments),
    /// Write amplification of policies of RAM and flash and of the drive beneath, with and without placement
    Hybrids(hybrids::Arguments),
    /// The SSD model, alone and beside SSDsim
    Ssd(ssd::Arguments),
    /// D-HFA and DEMOTE on three tiers, beside LRU on one
    Tiers(tiers::Arguments),
    /// Prompts to language models through tiers: blocks a second
    Kv(kv::Arguments),
    /// A sweep of many sizes on one thread and on several
    Sweep(sweep::Arguments),
    /// NBD servers: ours, nbdkit, qemu-nbd, and any other, under fio
    Nbd(nbd::Arguments),
    /// The HCA paper's real system on the engine, scaled down, as tables
    Hca(hca::Arguments),
    /// Converting recordings of strace's, beside reading as much CSV
    Capture(capture::Arguments),
    /// Shadow policies: their estimates beside full replays, and what they cost
    Shadow(shadow::Arguments),
    /// RAM or flash that moves between the caches of two traces, beside halves and the best fixed split
    Shares(shares::Arguments),
    /// Compare the forecast of `advise` from the first half of a trace with the second half
    Advise(advise::Arguments),
    /// Traces generated from profiles, beside the traces that these were made of
    Profile(profile::Arguments),
    /// `auto` beside each of its candidates, on single traces and where phases change
    Auto(auto::Arguments),
    /// Starting from a flash after a kill, and draining it, beside plain reads and writes
    AtRest(at_rest::Arguments),
    /// Two hosts that act as one cache, beside LRU over LRU, over a wire with a delay (root)
    TwoHosts(two_hosts::Arguments),
    /// Pass TCP connections on, late: the wire of `two-hosts`
    #[command(hide = true)]
    Delay(two_hosts::delay::Arguments),
    /// Keep a server busy with many clients: the load of `nbd --groups fairness`
    #[command(hide = true)]
    Flood(nbd::flood::Arguments),
    /// Record writes in one identifier and print nothing: what callgrind counts
    #[command(hide = true)]
    Record(identifiers::Record),
    /// Replay a part of a trace and print nothing: what callgrind counts
    #[command(hide = true)]
    Counted(papers::Counted),
}

fn main() -> Result<()> {
    match Arguments::parse().benchmark {
        Benchmark::Advise(arguments) => advise::run_all(&arguments),
        Benchmark::AtRest(arguments) => at_rest::run_all(&arguments),
        Benchmark::Auto(arguments) => auto::run_all(&arguments),
        Benchmark::Capture(arguments) => capture::run_all(&arguments),
        Benchmark::Replay(arguments) => replay::run_all(&arguments),
        Benchmark::Papers(arguments) => papers::run_all(&arguments),
        Benchmark::Counted(arguments) => papers::replay_counted(&arguments),
        Benchmark::Peers(arguments) => peers::run_all(&arguments),
        Benchmark::Bypass(arguments) => bypass::run_all(&arguments),
        Benchmark::Placement(arguments) => placement::run_all(&arguments),
        Benchmark::Profile(arguments) => profile::run_all(&arguments),
        Benchmark::Identifiers(arguments) => identifiers::run_all(&arguments),
        Benchmark::Hybrids(arguments) => hybrids::run_all(&arguments),
        Benchmark::Ssd(arguments) => ssd::run_all(&arguments),
        Benchmark::Kv(arguments) => kv::run_all(&arguments),
        Benchmark::Tiers(arguments) => tiers::run_all(&arguments),
        Benchmark::Sweep(arguments) => sweep::run_all(&arguments),
        Benchmark::Nbd(arguments) => nbd::run_all(&arguments),
        Benchmark::Hca(arguments) => hca::run_all(&arguments),
        Benchmark::Shadow(arguments) => shadow::run_all(&arguments),
        Benchmark::Shares(arguments) => shares::run_all(&arguments),
        Benchmark::TwoHosts(arguments) => two_hosts::run_all(&arguments),
        Benchmark::Delay(arguments) => two_hosts::delay::run(&arguments),
        Benchmark::Flood(arguments) => nbd::flood::run(&arguments),
        Benchmark::Record(arguments) => identifiers::record(&arguments),
    }
}
