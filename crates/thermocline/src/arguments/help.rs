//! Texts of the help besides the options: the commands in groups, and an example of each.

use clap::{Command, CommandFactory as _};

use super::Arguments;
use crate::output::wrapped;

/// All commands by what they are for.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["demo", "explore"]),
    ("Find a cache for a workload", &["simulate", "compare", "mrc", "sweep", "plan", "advise"]),
    ("Traces", &["trace", "corpus"]),
    ("Hot data, write buffers, language models", &["hot", "buffer", "kv"]),
    ("Run a cache", &["serve", "cache", "top"]),
    ("Studies", &["reproduce", "artifact"]),
    ("Lists", &["policies", "identifiers", "buffers", "devices", "drives"]),
    ("This program", &["completions", "help"]),
];

/// An example of every command that has none below it; the lines after the first go on with it.
const EXAMPLES: &[(&[&str], &str)] = &[
    (&["demo"], "thermocline demo"),
    (&["explore"], "thermocline explore db.csv.zst"),
    (
        &["simulate"],
        "thermocline simulate db.csv.zst --policy tac --tier ram=64MiB --tier flash=4x",
    ),
    (
        &["compare"],
        "thermocline compare db.csv.zst --policy all --tier ram=2%,5% \\\n      --tier flash=4x --report comparison.html",
    ),
    (
        &["mrc"],
        "thermocline mrc db.csv.zst --policy lru,arc --sizes 1%,2%,5%,10% --report curves.html",
    ),
    (
        &["sweep"],
        "thermocline sweep --example > sweep.toml\n  $ thermocline sweep sweep.toml --output results.parquet",
    ),
    (
        &["plan"],
        "thermocline plan db.csv.zst --budget 200 --price ram=4,flash=0.2,disk=0.02 \\\n      --currency EUR --output cache.toml",
    ),
    (&["advise"], "thermocline advise db.csv.zst --have lvmcache:vg/lv"),
    (&["trace", "info"], "thermocline trace info db.csv.zst --page-size 8KiB"),
    (&["trace", "classes"], "thermocline trace classes db.csv.zst --report classes.html"),
    (
        &["trace", "convert"],
        "thermocline trace convert web.blkparse.gz --to csv --output web.csv.zst",
    ),
    (&["trace", "fit"], "thermocline trace fit db.csv.zst --output db.profile"),
    (
        &["trace", "generate"],
        "thermocline trace generate --kind oltp --requests 1000000 --output made.csv.zst",
    ),
    (&["trace", "record"], "thermocline trace record --output db.csv.zst -- pgbench -T 60 bench"),
    (&["corpus", "check"], "thermocline corpus check corpus.toml --write"),
    (&["corpus", "fetch"], "thermocline corpus fetch corpus.toml"),
    (&["corpus", "compile"], "thermocline corpus compile corpus.toml --output compiled"),
    (
        &["corpus", "run"],
        "thermocline corpus run corpus.toml --policy all --tier ram=1%,10% --output results",
    ),
    (
        &["corpus", "report"],
        "thermocline corpus report results --baseline lru --report corpus.html",
    ),
    (&["hot"], "thermocline hot db.csv.zst --identifier mbf,mhf --report hot.html"),
    (
        &["buffer"],
        "thermocline buffer db.csv.zst --policy hwb,lru --size 16MiB --ssd ssdsim --ssd-size fit",
    ),
    (
        &["kv"],
        "thermocline kv conversation.jsonl --model llama-3-70b --tier hbm=320GiB \\\n      --tier dram=1TiB --tier ssd=8TiB --policy lru,s3-fifo,vllm-offload",
    ),
    (&["reproduce"], "thermocline reproduce mbf --traces traces"),
    (&["artifact"], "thermocline artifact studies/hybrids --root traces"),
    (
        &["serve"],
        "thermocline serve --example-config > cache.toml\n  $ thermocline serve cache.toml",
    ),
    (&["cache", "inspect"], "thermocline cache inspect flash.img"),
    (&["cache", "check"], "thermocline cache check flash.img"),
    (&["cache", "drain"], "thermocline cache drain flash.img --backing disk.img"),
    (
        &["cache", "remove-volume"],
        "thermocline cache remove-volume flash.img --volume db --backing disk.img",
    ),
    (&["cache", "replace"], "thermocline cache replace cache.toml --flash new.img --size 64GiB"),
    (&["cache", "evict"], "thermocline cache evict cache.toml 1GiB+64MiB"),
    (&["cache", "promote"], "thermocline cache promote cache.toml 1GiB-2GiB --volume db"),
    (&["cache", "pin"], "thermocline cache pin cache.toml 0+256MiB"),
    (&["cache", "unpin"], "thermocline cache unpin cache.toml 0+256MiB"),
    (&["cache", "forget"], "thermocline cache forget flash.img --backing disk.img"),
    (&["top"], "thermocline top --interval 5"),
    (&["policies"], "thermocline policies tac"),
    (&["identifiers"], "thermocline identifiers mbf"),
    (&["buffers"], "thermocline buffers hwb"),
    (&["devices"], "thermocline devices"),
    (&["drives"], "thermocline drives"),
    (
        &["completions"],
        "thermocline completions --install ~/.local\n  $ source <(thermocline completions bash)",
    ),
];

/// Columns of the text that names the commands.
const WIDTH: usize = 79;

/// Return the command line with all of its help.
pub(crate) fn command() -> Command {
    let examples = EXAMPLES.iter();
    let command = examples.fold(Arguments::command(), |command, (path, example)| {
        with_example(command, path, example)
    });
    let groups = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{}\n{{options}}",
        heading(&Command::new(""), "Options")
    ))
}

fn with_example(command: Command, path: &[&str], example: &str) -> Command {
    match path {
        [] => {
            let title =
                heading(&command, if example.contains('$') { "Examples" } else { "Example" });
            command.after_help(format!("{title}\n  $ {example}"))
        }
        [name, below @ ..] => {
            command.mut_subcommand(*name, |command| with_example(command, below, example))
        }
    }
}

/// Return the commands with what they do, group by group.
fn groups(command: &Command) -> String {
    let listed = |name: &str| {
        let about = match command.find_subcommand(name).and_then(Command::get_about) {
            Some(about) => about.to_string(),
            // clap adds it when it parses.
            None => "Print this message or the help of the given commands".to_owned(),
        };
        let style = command.get_styles().get_literal();
        let indent = " ".repeat(15);
        let about = wrapped(&about, WIDTH - indent.len()).join(&format!("\n{indent}"));
        format!("  {style}{name}{style:#}{}{about}\n", " ".repeat(13 - name.len()))
    };
    let group = |(title, names): &(&str, &[&str])| {
        let names: String = names.iter().map(|name| listed(name)).collect();
        format!("{}\n{names}\n", heading(command, title))
    };
    GROUPS.iter().map(group).collect()
}

fn heading(command: &Command, title: &str) -> String {
    let style = command.get_styles().get_header();
    format!("{style}{title}:{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collect the paths of all commands that have none below them.
    fn leaves<'a>(command: &'a Command, path: &[&'a str], found: &mut Vec<Vec<&'a str>>) {
        for below in command.get_subcommands() {
            let path = [path, &[below.get_name()]].concat();
            if below.has_subcommands() {
                leaves(below, &path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_command_has_an_example_that_is_understood() {
        let command = Arguments::command();
        let mut expected = vec![];
        leaves(&command, &[], &mut expected);
        let mut paths: Vec<Vec<&str>> = EXAMPLES.iter().map(|(path, _)| path.to_vec()).collect();
        expected.sort();
        paths.sort();
        assert_eq!(paths, expected);
        for (path, example) in EXAMPLES {
            for example in example.replace("\\\n", "").split("\n  $ ") {
                let line = example.split(" > ").next().unwrap();
                let line = line.trim_start_matches("source <(").trim_end_matches(')');
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_eq!(words[1..=path.len()], **path, "{example}");
                let parsed = super::super::parse(words.iter().map(Into::into));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    /// A group holds what comes after it, too, unless that has one of its own: groups come last.
    #[test]
    fn groups_of_options_hold_their_own_and_no_others() {
        let command = Arguments::command();
        let mut paths = vec![];
        leaves(&command, &[], &mut paths);
        for path in paths {
            let below = path.iter().fold(&command, |command, name| {
                command.find_subcommand(name).expect("it is listed")
            });
            for (heading, members) in [
                ("A part of the trace", "skip limit from_time to_time"),
                ("A trace of no known format", "columns ops delimiter header layout"),
                ("Several clients", "clients split private"),
                ("A recording", "include exclude identity mmap max_unknown"),
                (
                    "A hybrid of two algorithms (two-tier)",
                    "ram_policy flash_policy inclusion admission",
                ),
            ] {
                let is_in = |option: &&clap::Arg| option.get_help_heading() == Some(heading);
                let found: Vec<&str> =
                    below.get_arguments().filter(is_in).map(|one| one.get_id().as_str()).collect();
                assert!(found.is_empty() || found.join(" ") == members, "{path:?}: {found:?}");
            }
            for name in ["policy", "trace", "objective", "policies", "size", "output"] {
                let option = below.get_arguments().find(|option| option.get_id() == name);
                let heading = option.and_then(clap::Arg::get_help_heading);
                assert!(heading.is_none_or(|heading| heading == "Output"), "{path:?}: {name}");
            }
        }
    }

    #[test]
    fn every_command_is_in_one_group_and_every_line_fits() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Arguments::command();
        let mut names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        names.push("help");
        grouped.sort_unstable();
        names.sort_unstable();
        assert_eq!(grouped, names);
        let help = self::command().render_help().to_string();
        assert!(help.contains("\nFind a cache for a workload:\n  simulate     Replay"), "{help}");
        assert!(help.lines().all(|line| line.len() <= 80), "{help}");
    }
}
