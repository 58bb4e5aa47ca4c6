//! The reference of the command line: the help of every command.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::markdown::table;
use super::program::Program;

const INDEX: &str = "docs/cli.md";

/// A command, as the help of the one above it lists it.
struct Listed {
    name: String,
    summary: String,
}

/// Return a page for each command, behind one that lists them.
pub(crate) fn pages(program: &Program) -> Result<Vec<(String, String)>> {
    let help = program.ask(&["--help"])?;
    let commands = listed(&help);
    ensure!(!commands.is_empty(), "`thermocline --help` lists no command");
    let row = |one: &Listed| {
        let Listed { name, summary } = one;
        vec![format!("[`thermocline {name}`](cli/{name}.md)"), summary.clone()]
    };
    let rows: Vec<Vec<String>> = commands.iter().map(row).collect();
    let index = format!(
        "# The command line\n\n\
         What `thermocline --help` and the help of every command print.\n\n{}\n{}",
        table(&["command", "what it does"], &rows),
        block(&help)
    );
    let mut pages = vec![(INDEX.to_owned(), index)];
    for command in commands {
        let mut text = format!("# thermocline {}\n\n", command.name);
        describe(program, &[&command.name], &mut text)?;
        pages.push((format!("docs/cli/{}.md", command.name), text));
    }
    Ok(pages)
}

/// Describe a command, and those below it, under headings of their own.
fn describe(program: &Program, words: &[&str], text: &mut String) -> Result<()> {
    let help = program.ask(&[words, &["--help"]].concat())?;
    text.push_str(&block(&help));
    for command in listed(&help) {
        let words = [words, &[command.name.as_str()]].concat();
        writeln!(text, "\n## thermocline {}\n", words.join(" "))?;
        describe(program, &words, text)?;
    }
    Ok(())
}

fn block(help: &str) -> String {
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("```text\n{}\n```\n", lines.join("\n").trim())
}

/// Return the commands that a help lists, but for `help`: under headings, each in a line of two
/// blanks and its name, and further lines that are indented more. Other items in that list have
/// no plain name.
fn listed(help: &str) -> Vec<Listed> {
    let mut commands: Vec<Listed> = vec![];
    let is_name = |name: &str| {
        name.starts_with(|letter: char| letter.is_ascii_lowercase())
            && name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'-')
    };
    let mut goes_on = false;
    for line in help.lines() {
        let words = line.trim();
        let entry = line.strip_prefix("  ").and_then(|entry| entry.split_once("  "));
        if let Some((name, summary)) = entry.filter(|(name, _)| is_name(name)) {
            let (name, summary) = (name.to_owned(), summary.trim().to_owned());
            commands.push(Listed { name, summary });
            goes_on = true;
        } else if goes_on && line.starts_with("   ") {
            if let Some(command) = commands.last_mut() {
                command.summary += &format!(" {words}");
            }
        } else {
            goes_on = false;
        }
    }
    commands.retain(|command| command.name != "help");
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_a_help() {
        let help = "Do it\n\nUsage: it <COMMAND>\n\nLook:\n  info      Show a thing, and\n            \
                    more\n\nChange:\n  set-it    Set\n  help      Print\n\nArguments:\n  \
                    <WHAT>  What\n\nOptions:\n  -h, --help  Print help\n          how\n\n\
                    Example:\n  $ it  info\n";
        let commands = listed(help);
        let names: Vec<&str> = commands.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, ["info", "set-it"]);
        assert_eq!(commands[0].summary, "Show a thing, and more");
        assert_eq!(commands[1].summary, "Set");
    }
}
