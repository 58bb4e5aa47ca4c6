//! The kernel that the guest runs: its image, and modules in the order in which they can be loaded.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use liblzma::read::XzDecoder;

use super::image::Image;

/// Modules that the kernel's caches need; what they depend on is found.
pub(crate) const CACHES: [&str; 5] =
    ["crc32c_generic", "dm-mod", "dm-cache", "dm-cache-smq", "bcache"];
/// Module of the RAM disks, which the guest loads again for each cache.
pub(crate) const RAM_DISKS: &str = "brd";

/// The remedy if no kernel is given, or it is none.
pub(crate) const REMEDY: &str = "give a kernel package of Debian or the folder that it was unpacked to, such as by \
     `apt-get download $(apt-cache depends linux-image-amd64 | sed -n 's/ *Depends: //p')`";

/// A kernel in a folder.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) image: PathBuf,
    /// The file of each module.
    modules: BTreeMap<String, PathBuf>,
}

impl Kernel {
    /// Finds the kernel of a package, which is unpacked into `scratch`, or of a folder.
    pub(crate) fn find(given: &Path, scratch: &Path) -> Result<Self> {
        let mut folder = given.to_owned();
        if given.is_file() {
            folder = scratch.join("kernel");
            let status = Command::new("dpkg-deb")
                .arg("-x")
                .args([given, &folder])
                .status()
                .context("cannot start dpkg-deb; unpack the package and give the folder")?;
            ensure!(status.success(), "`{}` is no package; {REMEDY}", given.display());
        }
        let mut images = vec![];
        let mut modules = BTreeMap::new();
        walk(&folder, &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("vmlinuz") {
                images.push(path.to_owned());
            } else if let Some(module) = name.trim_end_matches(".xz").strip_suffix(".ko") {
                modules.insert(module.replace('_', "-"), path.to_owned());
            }
        })?;
        images.sort();
        let image = images.pop();
        let image = image
            .with_context(|| format!("there is no `vmlinuz` in `{}`; {REMEDY}", given.display()))?;
        Ok(Self { image, modules })
    }

    /// Adds modules, and the order in which they are loaded, to the guest's files.
    pub(crate) fn add_modules(&self, image: &mut Image, modules: &[&str]) -> Result<()> {
        let mut order = vec![];
        for module in modules {
            self.load(&module.replace('_', "-"), &mut order)?;
        }
        for (name, content) in &order {
            image.file(&format!("modules/{name}.ko"), content);
        }
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        image.file("modules/order", (names.join("\n") + "\n").as_bytes());
        Ok(())
    }

    /// Adds modules that the guest loads itself, later; they need no others.
    pub(crate) fn add_later(&self, image: &mut Image, modules: &[&str]) -> Result<()> {
        for module in modules {
            image.file(&format!("modules/{module}.ko"), &self.content(module)?);
        }
        Ok(())
    }

    /// Appends a module behind those that it depends on.
    fn load(&self, name: &str, order: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        if order.iter().any(|(known, _)| known == name) {
            return Ok(());
        }
        let content = self.content(name)?;
        for needed in dependencies(&content) {
            self.load(&needed, order)?;
        }
        order.push((name.to_owned(), content));
        Ok(())
    }

    fn content(&self, name: &str) -> Result<Vec<u8>> {
        let Some(path) = self.modules.get(name) else {
            bail!("the kernel has no module `{name}.ko`; {REMEDY}");
        };
        let unreadable = || format!("cannot read `{}`", path.display());
        let content = fs::read(path).with_context(unreadable)?;
        if path.extension().is_none_or(|extension| extension != "xz") {
            return Ok(content);
        }
        let mut unpacked = vec![];
        XzDecoder::new(&*content).read_to_end(&mut unpacked).with_context(unreadable)?;
        Ok(unpacked)
    }
}

/// Return the modules that a module names as those it needs.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(place) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return vec![];
    };
    let value = module[place + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('_', "-")).collect()
}

/// Call `tell` with every file below a folder; links are not followed.
fn walk(folder: &Path, tell: &mut impl FnMut(&Path)) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list `{}`", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list `{}`", folder.display()))?;
        let kind = entry.file_type().context("a file has a type")?;
        if kind.is_dir() {
            walk(&entry.path(), tell)?;
        } else if kind.is_file() {
            tell(&entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_needs() {
        let module = b"\x7fELF\0license=GPL\0depends=dm-mod,dm_bio_prison\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["dm-mod", "dm-bio-prison"]);
        assert!(dependencies(b"\0depends=\0").is_empty());
        assert!(dependencies(b"nothing").is_empty());
    }

    #[test]
    fn a_folder_without_a_kernel_says_what_to_give() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let error = Kernel::find(folder.path(), folder.path()).expect_err("it is empty");
        assert!(error.to_string().contains("apt-get download"), "{error}");
    }

    #[test]
    fn modules_come_behind_those_they_need() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let file = |name: &str, content: &[u8]| {
            fs::write(folder.path().join(name), content).expect("a file can be written");
        };
        file("vmlinuz-6.1", b"");
        file("dm-cache.ko", b"\0depends=dm-bio-prison,dm-mod\0");
        file("dm-bio-prison.ko", b"\0depends=dm_mod\0");
        file("dm-mod.ko", b"\0depends=\0");
        let kernel = Kernel::find(folder.path(), folder.path()).expect("there is a kernel");
        let mut order = vec![];
        kernel.load("dm-cache", &mut order).expect("all are there");
        let names: Vec<&str> = order.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["dm-mod", "dm-bio-prison", "dm-cache"]);
        assert!(kernel.load("bcache", &mut order).is_err());
    }
}
