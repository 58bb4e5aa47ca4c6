//! NBD servers under the same load: ours beside nbdkit and qemu-nbd, driven by fio.
//!
//! A *group* is a place (RAM, flash, a slow disk) with the servers that are compared there. Each server is
//! started once per placement and filled; each round gives every case to each of them in turn, so
//! that whatever else the machine does meets them all. The command prints the median of the rounds,
//! and the median of the ratios to the first server within a round.

mod fio;
pub(crate) mod flood;
pub(crate) mod groups;
pub(crate) mod server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use self::fio::Figures;
use self::groups::{Case, Clients, GROUPS, Group, Peer};
use self::server::{Place, Running};
use crate::measure::median;

/// Arguments of the benchmark.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Measure only these groups: ram, shards, fairness, flash, durable, slow,
    /// working-set, flush
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ram,shards,fairness,flash,durable,slow,working-set,flush"
    )]
    groups: Vec<String>,
    /// Measure only the servers whose names contain one of these; the first of a group is its baseline
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// One more server for all groups: `name=command`, with `{socket}`, `{file}` and `{mib}` filled in
    #[arg(long = "server", value_name = "NAME=COMMAND", value_parser = parse_server)]
    servers: Vec<(String, String)>,
    /// Measure only the cases whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds of one measurement, after one second of ramp
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Processors that servers and clients are pinned to, together; one placement after the other
    #[arg(long = "cpus", default_values = ["0", "0,1"])]
    placements: Vec<String>,
    /// Folder of the files: a disk that can be read past the page cache, not a file system in
    /// memory
    #[arg(long)]
    folder: Option<PathBuf>,
}

fn parse_server(text: &str) -> Result<(String, String), String> {
    let (name, command) = text.split_once('=').ok_or("it must be NAME=COMMAND")?;
    Ok((name.into(), command.into()))
}

fn is_chosen(words: &[String], name: &str) -> bool {
    words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
}

/// Measures all cases on all servers.
pub(crate) fn run_all(arguments: &Arguments) -> Result<()> {
    let thermocline = server::build_thermocline()?;
    let groups: Vec<&Group> =
        GROUPS.iter().filter(|group| arguments.groups.iter().any(|it| it == group.name)).collect();
    ensure!(!groups.is_empty(), "no group has such a name");
    for cpus in &arguments.placements {
        for group in &groups {
            let folder = match &arguments.folder {
                Some(folder) => tempfile::tempdir_in(folder),
                None => tempfile::tempdir(),
            }?;
            let mut clients = group.clients;
            if clients == Clients::Apart && !cpus.contains(',') {
                println!("{}: skipped: servers and clients need a processor each", group.name);
                continue;
            }
            if clients != Clients::Equal && !server::can_set_priorities() {
                println!("clients do not run before others: `chrt --fifo` is refused");
                if clients == Clients::First {
                    clients = Clients::Equal;
                }
            }
            let place = Place {
                folder: folder.path(),
                cpus,
                mib: group.mib,
                thermocline: &thermocline,
                clients,
            };
            println!("{}: {}; servers and clients on processors {cpus}", group.name, group.about);
            run_group(arguments, group, &place)
                .with_context(|| format!("group `{}` on processors {cpus}", group.name))?;
        }
    }
    Ok(())
}

fn run_group(arguments: &Arguments, group: &Group, place: &Place<'_>) -> Result<()> {
    // The disk below, where there is one: it goes last.
    let _disk =
        group.disk.map(|command| server::start(place, "disk", command, None)).transpose()?;
    let mut peers: Vec<Peer<'_>> =
        group.peers.iter().copied().filter(|peer| is_chosen(&arguments.only, peer.name)).collect();
    peers.extend(arguments.servers.iter().map(|(name, command)| Peer {
        name,
        command,
        config: None,
        threads: 1,
    }));
    peers.retain(|peer| {
        let is_there = server::is_installed(place, peer.command);
        if !is_there {
            println!("  skipped: {}: `{}` cannot be started", peer.name, peer.command);
        }
        is_there
    });
    ensure!(!peers.is_empty(), "no server is left");
    let running: Vec<Running> = peers
        .iter()
        .map(|peer| server::start(place, peer.name, peer.command, peer.config))
        .collect::<Result<_>>()?;
    for server in &running {
        for fill in group.fill {
            fio::run(place, server, fill, None)?;
        }
    }
    let cases: Vec<&Case> =
        group.cases.iter().filter(|case| is_chosen(&arguments.cases, case.name)).collect();
    let mut figures: BTreeMap<(usize, usize), Vec<Figures>> = BTreeMap::new();
    for _ in 0..arguments.rounds {
        for (row, case) in cases.iter().enumerate() {
            for (column, server) in running.iter().enumerate() {
                let found = fio::run(place, server, case, Some(arguments.seconds))
                    .with_context(|| format!("`{}`: {}", peers[column].name, case.name))?;
                figures.entry((row, column)).or_default().push(found);
            }
        }
    }
    for (row, case) in cases.iter().enumerate() {
        println!("  {}", case.name);
        for (column, peer) in peers.iter().enumerate() {
            print_row(peer.name, case, &figures[&(row, column)], &figures[&(row, 0)]);
            if peer.threads > 1 {
                print_capacity(peer, &figures[&(row, column)], &figures[&(row, 0)]);
            }
            let alone = cases.iter().position(|it| it.is_alone_of(case));
            if let Some(alone) = alone.filter(|_| case.beside.is_some()) {
                let (these, others) = (&figures[&(row, column)], &figures[&(alone, column)]);
                let ratios =
                    these.iter().zip(others).map(|(this, other)| this.p99_us / other.p99_us);
                println!(
                    "    {:16} its p99 is {:.2} times that without",
                    "",
                    median(ratios.collect())
                );
            }
        }
    }
    Ok(())
}

fn print_row(name: &str, case: &Case, figures: &[Figures], baseline: &[Figures]) {
    let of = |value: fn(&Figures) -> f64| median(figures.iter().map(value).collect());
    if case.is_flush {
        let ratios = figures.iter().zip(baseline).map(|(this, other)| other.sync_us / this.sync_us);
        let worst = figures.iter().map(|it| it.sync_us).fold(0.0, f64::max);
        println!(
            "    {name:16} a flush takes {:9.2} ms, at most {:9.2} ms   x{:.1} faster",
            of(|it| it.sync_us) / 1000.0,
            worst / 1000.0,
            median(ratios.collect()),
        );
        return;
    }
    let ratios = figures.iter().zip(baseline).map(|(this, other)| this.iops / other.iops);
    println!(
        "    {name:16} {:8.0} IOPS  x{:5.2}   p50 {:7.0} us  p99 {:7.0} us   CPU per request: \
         server {:5.2} us, client {:5.2} us",
        of(|it| it.iops),
        median(ratios.collect()),
        of(|it| it.p50_us),
        of(|it| it.p99_us),
        of(|it| it.server_us_per_request),
        of(|it| it.client_us_per_request),
    );
}

/// Says how many requests a server of several threads could answer beside the first one, if each of its
/// threads had a processor and clients had others.
fn print_capacity(peer: &Peer<'_>, figures: &[Figures], baseline: &[Figures]) {
    let ratios = figures.iter().zip(baseline).map(|(this, other)| {
        f64::from(peer.threads) * other.server_us_per_request / this.server_us_per_request
    });
    println!(
        "    {:16} by CPU time per request, {} threads answer x{:.2} as many requests as the first",
        "",
        peer.threads,
        median(ratios.collect())
    );
}

/// Return a path inside a folder, as text.
fn text(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}
