//! The compose project, a cache with its metrics for other people's machines.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};

const FOLDER: &str = "deploy/compose";

/// Check that the project mounts files that exist, and its configuration of the engine with the program.
pub(crate) fn check(root: &Path, program: &Path) -> Result<()> {
    let folder = root.join(FOLDER);
    let text = std::fs::read_to_string(folder.join("compose.yaml"))
        .with_context(|| format!("cannot read `{FOLDER}/compose.yaml`"))?;
    for mounted in mounts(&text) {
        ensure!(
            folder.join(mounted).is_file(),
            "`{FOLDER}/compose.yaml` mounts `{mounted}`, which does not exist"
        );
    }
    let configuration = format!("{FOLDER}/cache.toml");
    xtask::run(root, program, &["serve", "--check", &configuration], &[])
}

/// Return the files of this repository that a compose file mounts.
fn mounts(compose: &str) -> impl Iterator<Item = &str> {
    let mounts = compose.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let mounts = mounts.filter(|mount| mount.starts_with("./") || mount.starts_with("../"));
    mounts.filter_map(|mount| mount.split(':').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounted_files_are_named_without_their_places_in_the_container() {
        let compose = "volumes:\n  - ./a.toml:/etc/a.toml:ro\n  - data:/data\n  - ../b:/b:ro\n";
        assert_eq!(mounts(compose).collect::<Vec<_>>(), ["./a.toml", "../b"]);
    }
}
