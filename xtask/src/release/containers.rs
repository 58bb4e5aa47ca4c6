//! The container images of the laboratory and of the engine, built from the tree of the archive.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Release, has, output, word};

/// Images are `deploy/container/NAME.Containerfile`.
const IMAGES: [&str; 2] = ["lab", "engine"];

/// Build, try and save each image. Nothing is pulled, because the images hold only the static program.
pub(super) fn make(release: &Release) -> Result<()> {
    super::demand_tree(release)?;
    if !has("buildah", "the container images") {
        return Ok(());
    }
    let storage = tempfile::tempdir().context("cannot make a folder for images")?;
    let builder = Builder { release, storage: storage.path() };
    for image in IMAGES {
        builder.build(image)?;
        builder.check(image)?;
        builder.save(image)?;
    }
    Ok(())
}

/// Buildah with storage of its own, so that no image of this machine is touched.
struct Builder<'a> {
    release: &'a Release,
    storage: &'a Path,
}

impl Builder<'_> {
    fn build(&self, image: &str) -> Result<()> {
        let file = format!("deploy/container/{image}.Containerfile");
        let file = self.release.root.join(file);
        self.buildah(&[
            "build",
            "--quiet",
            "--pull-never",
            "--isolation",
            "chroot",
            "--timestamp",
            &self.release.tools.epoch,
            "--label",
            &format!("org.opencontainers.image.version={}", self.release.version),
            "--label",
            &format!("org.opencontainers.image.source={}", self.release.repository),
            "--tag",
            &self.tag(image),
            "--file",
            word(&file)?,
            word(&self.release.tree)?,
        ])?;
        Ok(())
    }

    /// Runs the program inside of the image.
    fn check(&self, image: &str) -> Result<()> {
        let container = self.buildah(&["from", "--pull-never", &self.tag(image)])?;
        let run = |words: &[&str]| {
            let begin = ["run", "--isolation", "chroot", container.trim(), "--"];
            self.buildah(&[&begin[..], &["/usr/bin/thermocline"], words].concat())
        };
        let said = run(&["--version"])?;
        ensure!(said.contains(&self.release.version), "the image `{image}` says `{}`", said.trim());
        // The first needs a place for temporary files, the second a configuration.
        let task =
            if image == "lab" { &["demo"][..] } else { &["serve", "--check", CONFIGURATION] };
        run(task)?;
        self.buildah(&["rm", container.trim()])?;
        Ok(())
    }

    fn save(&self, image: &str) -> Result<()> {
        let tag = self.tag(image);
        let name = format!("{}.docker.tar", tag.replace(':', "-"));
        let path = self.release.files.join(&name);
        if path.exists() {
            std::fs::remove_file(&path).with_context(|| format!("cannot replace `{name}`"))?;
        }
        // Every version of Docker and podman loads this kind of archive, and gives the image its name.
        let archive = format!("docker-archive:{}", word(&path)?);
        self.buildah(&["push", "--quiet", &tag, &format!("{archive}:{tag}")])?;
        let listed = Command::new("tar").arg("-xOf").arg(&path).arg("manifest.json").output();
        let listed = listed.with_context(|| format!("cannot read `{name}`"))?;
        ensure!(
            String::from_utf8_lossy(&listed.stdout).contains(&format!("{tag}\"")),
            "`{name}` has no image `{tag}`: compose.yaml and the docs name that"
        );
        eprintln!("release: the image {name}");
        Ok(())
    }

    fn tag(&self, image: &str) -> String {
        format!("thermocline-{image}:{}", self.release.version)
    }

    fn buildah(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(self.storage.join("root"));
        command.arg("--runroot").arg(self.storage.join("run"));
        output(&mut command, words)
    }
}

/// The configuration that the image of the engine begins with.
const CONFIGURATION: &str = "/etc/thermocline/cache.toml";
