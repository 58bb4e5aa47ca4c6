//! The tables of claims on the pages of the papers, from what `thermocline reproduce --json` printed.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

/// The folder of the papers' pages.
const FOLDER: &str = "papers";
/// What a folder keeps of the last run.
const CLAIMS: &str = "claims.json";
const PAGE: &str = "README.md";
/// What encloses the table of a page.
const BEGIN: &str = "<!-- `cargo xtask papers` writes this table. -->\n";
const END: &str = "<!-- The end of the table. -->\n";

/// What a run says; the figures are left out.
#[derive(Deserialize, Serialize)]
struct Run {
    claims: Vec<Claim>,
}

#[derive(Deserialize, Serialize)]
struct Claim {
    #[serde(rename = "claim")]
    says: String,
    measured: String,
    verdict: String,
}

/// Takes the claims of every `NAME.json` in a folder over, each the output of
/// `thermocline reproduce NAME --json`, and writes the tables of their pages.
///
/// # Errors
/// A file that is none of those, and a page without a place for the table.
pub(crate) fn update(root: &Path, results: &Path) -> Result<()> {
    let mut updated = 0;
    for folder in folders(root)? {
        let name = folder.file_name().context("a folder has a name")?;
        let path = results.join(name).with_extension("json");
        if !path.exists() {
            eprintln!("skipped: no `{}`", path.display());
            continue;
        }
        let run = read(&path)?;
        let page = folder.join(PAGE);
        let text = std::fs::read_to_string(&page)?;
        let text = with_table(&text, &table(&run))
            .with_context(|| format!("`{}` has no place for the table", page.display()))?;
        std::fs::write(folder.join(CLAIMS), serde_json::to_string_pretty(&run)? + "\n")?;
        std::fs::write(page, text)?;
        updated += 1;
    }
    ensure!(updated > 0, "`{}` has no results of a paper", results.display());
    Ok(())
}

/// The pages that have claims beside them, and another table.
pub(crate) fn outdated(root: &Path) -> Result<Vec<String>> {
    let mut outdated = vec![];
    let with_claims = |folder: &PathBuf| folder.join(CLAIMS).exists();
    for folder in folders(root)?.into_iter().filter(with_claims) {
        let text = std::fs::read_to_string(folder.join(PAGE))?;
        let expected = with_table(&text, &table(&read(&folder.join(CLAIMS))?));
        if expected.as_ref() != Some(&text) {
            let page = folder.join(PAGE);
            let page = page.strip_prefix(root).unwrap_or(&page).display().to_string();
            outdated.push(format!("{page}: the table is not that of `{CLAIMS}`"));
        }
    }
    Ok(outdated)
}

/// The folders of papers.
fn folders(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(root.join(FOLDER)).context("cannot list the papers")?;
    let paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    let mut folders: Vec<PathBuf> =
        paths.into_iter().filter(|path| path.join(PAGE).exists()).collect();
    folders.sort();
    Ok(folders)
}

fn read(path: &Path) -> Result<Run> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    serde_json::from_str(&text).with_context(|| {
        format!("`{}` is no output of `thermocline reproduce --json`", path.display())
    })
}

fn table(run: &Run) -> String {
    let mut table =
        String::from("| the paper claims | we measure | verdict |\n| --- | --- | --- |\n");
    for Claim { says, measured, verdict } in &run.claims {
        let verdict = verdict.replace('_', " ");
        let [says, measured] = [says, measured].map(|text| text.replace('|', "\\|"));
        writeln!(table, "| {says} | {measured} | {verdict} |").expect("a string takes all");
    }
    table
}

/// A page with another table; none if it has no place for one.
fn with_table(page: &str, table: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, "\n", table, "\n", END, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_all_but_its_table() {
        let run: Run = serde_json::from_str(
            r#"{"claims": [{"claim": "a|b", "measured": "1 %", "verdict": "cannot_be_judged"}], "workloads": []}"#,
        )
        .unwrap();
        let page = format!("# A\n\n{BEGIN}\nold\n{END}\nb\n");
        let new = with_table(&page, &table(&run)).unwrap();
        assert!(new.contains("| a\\|b | 1 % | cannot be judged |\n"), "{new}");
        assert!(new.starts_with("# A\n\n") && new.ends_with("\nb\n") && !new.contains("old"));
        assert_eq!(with_table(&new, &table(&run)).unwrap(), new, "nothing changes twice");
        assert!(with_table("# A\n", "").is_none());
    }
}
