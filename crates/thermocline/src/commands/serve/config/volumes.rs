//! `[[volume]]`: backing stores that share the RAM and the flash of one server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use thermocline_engine::{VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};
use thermocline_trace::text_file;
use tracing::{Span, error_span};

use super::super::cleaning::CleaningSection;
use super::shares::{Resource, Share, Size};
use super::{
    Backing, Config, ControlSection, Flash, Io, Limits, Log, Metrics, Mode, Nbd, Policy, Ram,
    Record, UblkSection, VhostUserSection, default_page_size, default_shadow_sample,
    default_shards, shards,
};
use crate::bytes::Bytes;

/// The configuration of a server: one export, or several volumes.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    /// One configuration per volume, as if it were alone. Settings that volumes share are the same in all.
    each: Vec<Config>,
    are_named: bool,
    /// RAM and flash for all together.
    sizes: [Bytes; 2],
}

impl Volumes {
    /// Read a configuration, and refuse what cannot work. Paths in it are relative to its file.
    ///
    /// # Errors
    /// A value that is not permitted; the error names its key.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let context = || format!("in `{}`", path.display());
        let text = text_file::read(path).with_context(context)?;
        let mut volumes = Self::parse(&text).with_context(context)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for path in volumes.each.iter_mut().flat_map(Config::paths) {
            *path = folder.join(&*path);
        }
        Ok(volumes)
    }

    /// Read a configuration from its text. Paths stay as they are.
    ///
    /// # Errors
    /// A value that is not permitted; the error names its key.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let are_named = toml::from_str::<toml::Table>(text)?.contains_key("volume");
        if are_named {
            return toml::from_str::<File>(text)?.into_volumes();
        }
        let config = Config::parse(text)?;
        let flash = config.flash.as_ref().map_or(Bytes(0), |flash| flash.size);
        Ok(Self { sizes: [config.ram.size, flash], each: vec![config], are_named })
    }

    /// Return the configuration that all volumes share, with the rest of the first one.
    pub(crate) fn shared(&self) -> &Config {
        &self.each[0]
    }

    /// Return the configuration of each volume, in the order of the file.
    pub(crate) fn each(&self) -> &[Config] {
        &self.each
    }

    /// Return the same, to be changed.
    pub(super) fn each_mut(&mut self) -> &mut [Config] {
        &mut self.each
    }

    /// Return the size of a resource for all volumes together.
    pub(crate) const fn bytes(&self, resource: Resource) -> Bytes {
        self.sizes[resource as usize]
    }

    /// Return `true` if the file has `[[volume]]`.
    pub(crate) const fn are_named(&self) -> bool {
        self.are_named
    }

    /// Return the configuration of the volume with that name, if there is one; the only one without `[[volume]]`.
    pub(crate) fn of(&self, name: &str) -> Option<&Config> {
        self.each.iter().find(|config| !self.are_named || config.nbd.export == name)
    }

    /// Return the sizes of RAM and flash in bytes, each with the sum of these shares of it.
    pub(crate) fn sizes(&self, shares: &BTreeMap<&str, [Bytes; 2]>) -> [[u64; 2]; 2] {
        let sizes = [0, 1].map(|tier| total(shares.values().map(|shares| shares[tier])));
        [[self.sizes[0].0, sizes[0].0], [self.sizes[1].0, sizes[1].0]]
    }

    /// Return the span that names a volume in the log; none without `[[volume]]`.
    pub(crate) fn span(&self, config: &Config) -> Span {
        let name = &config.nbd.export;
        if self.are_named { error_span!("volume", name) } else { Span::none() }
    }

    /// Names the volume in an error, if volumes are named.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn within<T>(&self, config: &Config, result: Result<T>) -> Result<T> {
        if self.are_named { result.with_context(|| place(&config.nbd.export)) } else { result }
    }
}

fn place(name: &str) -> String {
    format!("[[volume]] `{name}`")
}

/// A configuration with volumes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default = "default_page_size")]
    page_size: Bytes,
    #[serde(default = "default_shards", deserialize_with = "shards")]
    shards: std::num::NonZeroU16,
    state_dir: Option<PathBuf>,
    flash: Option<Flash>,
    ram: Ram,
    #[serde(default)]
    nbd: Nbd,
    #[serde(default)]
    io: Io,
    metrics: Option<Metrics>,
    control: Option<ControlSection>,
    #[serde(default)]
    log: Log,
    volume: Vec<Volume>,
    // Each volume has its own.
    write_mode: Option<IgnoredAny>,
    shadow: Option<IgnoredAny>,
    shadow_sample: Option<IgnoredAny>,
    backing: Option<IgnoredAny>,
    clients: Option<IgnoredAny>,
    policy: Option<IgnoredAny>,
    cleaning: Option<IgnoredAny>,
    limits: Option<IgnoredAny>,
    vhost_user: Option<IgnoredAny>,
    ublk: Option<IgnoredAny>,
    record: Option<IgnoredAny>,
}

/// A volume.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Volume {
    name: String,
    #[serde(default)]
    write_mode: Mode,
    #[serde(default)]
    shadow: Vec<String>,
    #[serde(default = "default_shadow_sample")]
    shadow_sample: f64,
    backing: Backing,
    flash: Option<FlashShare>,
    ram: Share,
    policy: Policy,
    #[serde(default)]
    cleaning: CleaningSection,
    #[serde(default)]
    limits: Limits,
    vhost_user: Option<VhostUserSection>,
    ublk: Option<UblkSection>,
    record: Option<Record>,
}

/// A volume's share of the flash.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlashShare {
    size: Size,
    floor: Option<Bytes>,
    ceiling: Option<Bytes>,
    pub(super) pinned: Option<Bytes>,
    pub(super) write_budget_gib_per_day: Option<f64>,
}

impl FlashShare {
    /// Return what a share of RAM has, too.
    pub(super) const fn share(&self) -> Share {
        let Self { size, floor, ceiling, pinned, .. } = *self;
        Share { size, floor, ceiling, pinned }
    }
}

impl File {
    fn into_volumes(self) -> Result<Volumes> {
        self.check_keys()?;
        self.check_names()?;
        self.check_shares()?;
        let each = self.volume.iter().map(|volume| {
            let config = self.config(volume);
            config.with_context(|| place(&volume.name))
        });
        let flash = self.flash.as_ref().map_or(Bytes(0), |flash| flash.size);
        let each = each.collect::<Result<_>>()?;
        let mut volumes = Volumes { each, are_named: true, sizes: [self.ram.size, flash] };
        for resource in Resource::ALL {
            volumes.begin_shares(resource, &|_| 0)?;
        }
        for config in &volumes.each {
            volumes.within(config, config.check())?;
        }
        volumes.check_distinct()?;
        Ok(volumes)
    }

    /// Refuse keys that each volume has for itself.
    fn check_keys(&self) -> Result<()> {
        for (key, moved, is_given) in [
            ("write_mode", "write_mode", self.write_mode.is_some()),
            ("shadow", "shadow", self.shadow.is_some()),
            ("shadow_sample", "shadow_sample", self.shadow_sample.is_some()),
            ("[backing]", "[volume.backing]", self.backing.is_some()),
            ("[policy]", "[volume.policy]", self.policy.is_some()),
            ("[cleaning]", "[volume.cleaning]", self.cleaning.is_some()),
            ("[limits]", "[volume.limits]", self.limits.is_some()),
            ("[vhost_user]", "[volume.vhost_user]", self.vhost_user.is_some()),
            ("[ublk]", "[volume.ublk]", self.ublk.is_some()),
            ("[record]", "[volume.record]", self.record.is_some()),
        ] {
            ensure!(
                !is_given,
                "`{key}` is outside of [[volume]]: each volume has its own, move it to `{moved}` there"
            );
        }
        ensure!(
            self.clients.is_none(),
            "[clients] is for one export: serve it by a server of its own, without [[volume]]"
        );
        ensure!(
            self.nbd.export.is_empty(),
            "`nbd.export`: leave it out, each [[volume]] is exported under its `name`"
        );
        Ok(())
    }

    fn check_names(&self) -> Result<()> {
        let number = self.volume.len();
        ensure!(
            (1..=VOLUMES_MAX).contains(&number),
            "the configuration has {number} [[volume]]: it must have from 1 to {VOLUMES_MAX}"
        );
        for (index, Volume { name, .. }) in self.volume.iter().enumerate() {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            ensure!(
                (1..=VOLUME_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain),
                "[[volume]] number {}: invalid name `{}`: use 1 to {VOLUME_NAME_BYTES_MAX} letters, \
                 digits, `-`, `_` and `.`",
                index + 1,
                name.escape_default()
            );
            let is_twice = self.volume[..index].iter().any(|other| other.name == *name);
            ensure!(!is_twice, "two [[volume]] have the name `{name}`: rename one of them");
        }
        Ok(())
    }

    /// Check that the shares of all volumes fit.
    fn check_shares(&self) -> Result<()> {
        self.flash.as_ref().map_or(Ok(None), Flash::rated_written_bytes)?;
        ensure!(
            self.ram.pinned.is_none(),
            "`ram.pinned`: each volume has its own, move it to [volume.ram]"
        );
        let sharing = self.volume.iter().find(|volume| volume.flash.is_some());
        if let (None, Some(volume)) = (&self.flash, sharing) {
            bail!(
                "{}: [volume.flash] is a share of [flash], which is missing: give it a `path` and a `size`",
                place(&volume.name)
            );
        }
        ensure!(
            self.flash.is_none() || sharing.is_some(),
            "[flash]: no volume uses it; give a volume a share with [volume.flash], or leave it out"
        );
        let flash = self.flash.as_ref().map_or(Bytes(0), |flash| flash.size);
        let ram = total(self.volume.iter().map(|volume| volume.ram.fixed()));
        for (tier, size, shares) in [("ram", self.ram.size, ram), ("flash", flash, self.fixed())] {
            ensure!(
                shares.0 <= size.0,
                "`{tier}.size` is {} bytes, and the volumes' shares are {} bytes together: make it \
                 larger, or the `size` in a [volume.{tier}] smaller",
                size.0,
                shares.0
            );
        }
        Ok(())
    }

    /// Return the sum of the volumes' shares of the flash that do not move.
    fn fixed(&self) -> Bytes {
        total(self.volume.iter().filter_map(|volume| Some(volume.flash?.share().fixed())))
    }

    /// Return the sum of the volumes' shares of the flash. Those that move share what the others leave.
    fn shares(&self) -> Bytes {
        let mut shares = self.volume.iter().filter_map(|volume| volume.flash);
        let moves = shares.any(|share| matches!(share.size, Size::Auto));
        let all = self.flash.as_ref().filter(|_| moves);
        all.map_or_else(|| self.fixed(), |flash| flash.size)
    }

    /// Return the configuration of a volume as if it were alone.
    fn config(&self, volume: &Volume) -> Result<Config> {
        let volume = volume.clone();
        let flash = self.flash.as_ref().zip(volume.flash);
        let flash = flash.map(|(flash, share)| flash.share(share, self.shares()));
        Ok(Config {
            page_size: self.page_size,
            shards: self.shards,
            write_mode: volume.write_mode,
            shadow: volume.shadow,
            shadow_sample: volume.shadow_sample,
            state_dir: self.state_dir.clone(),
            backing: volume.backing,
            flash: flash.transpose()?,
            ram: volume.ram.ram()?,
            policy: volume.policy,
            clients: None,
            cleaning: volume.cleaning,
            limits: volume.limits,
            nbd: Nbd { export: volume.name, ..self.nbd.clone() },
            vhost_user: volume.vhost_user,
            ublk: volume.ublk,
            io: self.io,
            metrics: self.metrics,
            control: self.control.clone(),
            record: volume.record,
            log: self.log,
        })
    }
}

impl Volumes {
    /// Refuse what two volumes cannot both have.
    fn check_distinct(&self) -> Result<()> {
        for (index, config) in self.each.iter().enumerate() {
            let name = &config.nbd.export;
            ensure!(
                !config.backing.cooperate,
                "[[volume]] `{name}`: `backing.cooperate` is for one export: serve it by a server of its \
                 own, without [[volume]]"
            );
            // The notes of two exports would be in one place.
            ensure!(
                config.backing.nbd.is_none() || config.backing.note.is_some(),
                "[[volume]] `{name}`: `backing.nbd` needs `backing.note`: the path of a small file for \
                 the note of this export, one for each volume"
            );
            for other in &self.each[..index] {
                let mut pairs = Self::own(config).into_iter().zip(Self::own(other));
                let twice = pairs.find(|((_, own), (_, other))| own.is_some() && own == other);
                if let Some(((key, Some(own)), _)) = twice {
                    bail!(
                        "[[volume]] `{}` and `{name}` have the same `{key}`, `{own}`: give each its own",
                        other.nbd.export
                    );
                }
            }
        }
        Ok(())
    }

    /// Return the values that only one volume can have, with their keys.
    fn own(config: &Config) -> [(&'static str, Option<String>); 6] {
        let backing = &config.backing;
        let shown = |path: &PathBuf| path.display().to_string();
        let machines = config.vhost_user.as_ref().map(|section| &section.socket);
        [
            ("backing.path", backing.path.as_ref().map(shown)),
            (
                "backing.nbd",
                backing.nbd.as_ref().map(|uri| format!("{}/{}", uri.server, uri.export)),
            ),
            ("backing.note", backing.note.as_ref().map(shown)),
            ("record.path", config.record.as_ref().map(|record| shown(&record.path))),
            ("vhost_user.socket", machines.map(shown)),
            ("ublk.id", config.ublk.as_ref().map(|section| section.id.to_string())),
        ]
    }
}

/// Return the sum of sizes.
fn total(sizes: impl Iterator<Item = Bytes>) -> Bytes {
    Bytes(sizes.fold(0, |sum, size| sum.saturating_add(size.0)))
}
