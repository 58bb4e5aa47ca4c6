//! Words of a POSIX shell.

use super::CommandError;

/// Quote an argument so that a shell takes it as it is.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./:@%+,-=".contains(&byte);
    // Some shells look for a program where a word begins with `=`.
    if !word.is_empty() && !word.starts_with('=') && word.bytes().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Check that a name can be an argument of a program.
pub(super) fn check_name(what: &'static str, name: &str) -> Result<(), CommandError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.contains('\0') {
        "no name has a NUL byte"
    } else if name.starts_with('-') {
        "programs would take it for an option"
    } else {
        return Ok(());
    };
    Err(CommandError::Name { what, name: name.escape_debug().to_string(), reason })
}

/// Write text as lines of a comment, whatever is in it.
pub(super) fn comment(text: &str) -> String {
    let lines = text.split(['\n', '\r']);
    lines.map(|line| format!("# {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// Let a shell read a quoted word; `None` where there is no shell.
    fn read_back(word: &str) -> Option<Vec<u8>> {
        let script = format!("printf %s {}", quoted(word));
        let output = Command::new("sh").arg("-c").arg(script).output();
        if output.is_err() {
            println!("skipped: there is no sh");
        }
        output.ok().map(|output| output.stdout)
    }

    #[test]
    fn plain_words_need_no_quotes() {
        assert_eq!(quoted("/dev/disk/by-id/nvme-eui.0025"), "/dev/disk/by-id/nvme-eui.0025");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("~"), "'~'");
        assert_eq!(quoted("--policy=lru"), "--policy=lru");
        assert_eq!(quoted("=ls"), "'=ls'");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn a_shell_reads_any_name_back(word in "[^\0]{0,24}|[$`'\"\\\\ \n;&|<>*?(){}!#~=\t-]{0,12}") {
            if let Some(bytes) = read_back(&word) {
                prop_assert_eq!(bytes, word.as_bytes());
            }
        }

        #[test]
        fn every_line_of_a_comment_is_one(text in "\\PC*|[a\n\r#$`']{0,20}") {
            let comment = comment(&text);
            prop_assert!(comment.ends_with('\n'));
            prop_assert!(comment.lines().all(|line| line.starts_with("# ")));
        }
    }
}
