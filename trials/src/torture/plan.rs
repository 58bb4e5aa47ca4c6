//! Actions of a round, drawn from its seed.

use anyhow::{Context as _, Result};
use thermocline_core::random::SplitMix64;

/// The faults. Each round has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Kill,
    PowerCut,
    Stop,
    RotAtRest,
    RotRunning,
    RotMetadata,
    FlashFails,
    BackingFails,
    SyncFails,
    NoSpace,
    Hang,
    DoubleStart,
    FailedStart,
    Drain,
}

impl Kind {
    /// Every kind with its weight.
    const WEIGHTS: [(Self, u32); 14] = [
        (Self::Kill, 10),
        (Self::PowerCut, 16),
        (Self::Stop, 6),
        (Self::RotAtRest, 6),
        (Self::RotRunning, 8),
        (Self::RotMetadata, 6),
        (Self::FlashFails, 8),
        (Self::BackingFails, 8),
        (Self::SyncFails, 10),
        (Self::NoSpace, 6),
        (Self::Hang, 5),
        (Self::DoubleStart, 1),
        (Self::FailedStart, 6),
        (Self::Drain, 4),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::PowerCut => "power cut",
            Self::Stop => "orderly stop",
            Self::RotAtRest => "rot at rest",
            Self::RotRunning => "rot while running",
            Self::RotMetadata => "rot of metadata",
            Self::FlashFails => "flash fails",
            Self::BackingFails => "backing store fails",
            Self::SyncFails => "sync fails",
            Self::NoSpace => "no space",
            Self::Hang => "device hangs",
            Self::DoubleStart => "double start",
            Self::FailedStart => "start fails",
            Self::Drain => "drain",
        }
    }

    /// Return the fault of that name.
    ///
    /// # Errors
    /// If there is none; the error lists them.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let found = Self::WEIGHTS.into_iter().find(|(kind, _)| kind.name() == name);
        let names: Vec<&str> = Self::WEIGHTS.iter().map(|(kind, _)| kind.name()).collect();
        let (kind, _) = found.with_context(|| {
            format!("`--fault`: no fault is called `{name}`: there are {}", names.join(", "))
        })?;
        Ok(kind)
    }

    /// Return `true` if devices answer with errors, or not at all.
    pub(crate) const fn is_of_device(self) -> bool {
        matches!(
            self,
            Self::FlashFails | Self::BackingFails | Self::SyncFails | Self::NoSpace | Self::Hang
        )
    }
}

/// End of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Kill,
    PowerCut,
}

/// The sizes that stay the same as long as the flash is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) page_bytes: u32,
    pub(crate) ram_kib: u32,
    pub(crate) flash_kib: u32,
}

impl Shape {
    /// The one with the fewest pages.
    pub(crate) const SMALLEST: Self = Self { page_bytes: 8192, ram_kib: 512, flash_kib: 2048 };

    pub(crate) fn draw(random: &mut SplitMix64) -> Self {
        Self {
            page_bytes: [4096, 4096, 4096, 8192][random.below(4) as usize],
            ram_kib: [512, 1024][random.below(2) as usize],
            flash_kib: [2048, 3072, 4096][random.below(3) as usize],
        }
    }

    /// Sectors of a page.
    pub(crate) const fn page_sectors(&self) -> usize {
        self.page_bytes as usize / super::disk::SECTOR
    }
}

/// The settings of a server, besides its sizes.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) policy: String,
    pub(crate) mode: &'static str,
    engine: &'static str,
    is_direct: bool,
    dirty_ratio: f64,
    undurable_kib: Option<u32>,
    bypass_kib: Option<u32>,
    drains_at_exit: bool,
    budget: Option<f64>,
    timeout_s: f64,
}

impl Settings {
    /// Return the plainest ones.
    pub(crate) fn plain(policy: &str) -> Self {
        Self {
            policy: policy.to_owned(),
            mode: "back",
            engine: "auto",
            is_direct: true,
            dirty_ratio: 0.7,
            undurable_kib: None,
            bypass_kib: None,
            drains_at_exit: false,
            budget: None,
            timeout_s: 30.0,
        }
    }

    fn draw(random: &mut SplitMix64, policies: &[String], kind: Kind) -> Self {
        let mut pick = |choices: u32| random.below(choices) as usize;
        let policies_count = u32::try_from(policies.len()).unwrap_or(u32::MAX);
        Self {
            policy: policies[pick(policies_count)].clone(),
            mode: ["back", "back", "back", "back", "through", "around", "read-only"]
                [pick(if kind == Kind::Kill { 7 } else { 6 })],
            engine: ["auto", "auto", "threads"][pick(3)],
            is_direct: pick(5) > 0,
            dirty_ratio: [0.1, 0.7, 1.0][pick(3)],
            undurable_kib: [None, Some(128), Some(512)][pick(3)],
            bypass_kib: [None, None, Some(128)][pick(3)],
            drains_at_exit: pick(6) == 0,
            budget: [None, None, None, Some(0.2)][pick(4)],
            timeout_s: if kind == Kind::Hang { 0.4 } else { 30.0 },
        }
    }

    /// Return the configuration of a server on these files, with a flash if its sizes are given.
    pub(crate) fn text(
        &self,
        shape: Shape,
        has_flash: bool,
        folder: &std::path::Path,
        socket: &str,
    ) -> String {
        let folder = folder.display();
        let (mode, policy) = (self.mode, &self.policy);
        let mut text = format!(
            "page_size = {}\nwrite_mode = \"{mode}\"\n\
             [backing]\npath = \"{folder}/backing.img\"\ntimeout = {:?}\n\
             [ram]\nsize = \"{}KiB\"\n[policy]\nname = \"{policy}\"\n\
             [cleaning]\ndirty_ratio = {:?}\ndrain_at_exit = {}\n\
             [io]\nengine = \"{}\"\ndirect = {}\n\
             [nbd]\nsocket = \"{socket}\"\n[metrics]\nlisten = \"127.0.0.1:0\"\n[limits]\n",
            shape.page_bytes,
            self.timeout_s,
            shape.ram_kib,
            self.dirty_ratio,
            self.drains_at_exit,
            self.engine,
            self.is_direct
        );
        let mut add = |key: &str, kib: Option<u32>| {
            if let Some(kib) = kib {
                text += &format!("{key} = \"{kib}KiB\"\n");
            }
        };
        add("undurable", self.undurable_kib);
        add("sequential_bypass", self.bypass_kib);
        if has_flash {
            let size = shape.flash_kib;
            text += &format!("[flash]\npath = \"{folder}/flash.img\"\nsize = \"{size}KiB\"\n");
            if let Some(budget) = self.budget {
                text += &format!("write_budget_gib_per_day = {budget:?}\n");
            }
        }
        text
    }
}

/// One round.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) end: End,
    /// `true` if the server ends while the fault lasts, instead of recovering from it first.
    pub(crate) is_cut_short: bool,
    pub(crate) settings: Settings,
    /// The answers to wait for, before the fault and again after it.
    pub(crate) requests: u64,
    pub(crate) load_seed: u64,
}

impl Plan {
    /// Describe the round, for a reader who looks into a violation.
    pub(crate) fn line(&self) -> String {
        let Self { kind, end, is_cut_short, settings, requests, .. } = self;
        let ending = if *is_cut_short { "during the fault" } else { "after it" };
        format!("{}, {end:?} {ending}, twice {requests} requests, {settings:?}", kind.name())
    }

    /// Draws a round, with this fault if one is given.
    pub(crate) fn draw(random: &mut SplitMix64, policies: &[String], only: Option<Kind>) -> Self {
        let total: u32 = Kind::WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = random.below(total);
        let kind = Kind::WEIGHTS
            .into_iter()
            .find(|&(_, weight)| {
                let is_it = drawn < weight;
                drawn = drawn.saturating_sub(weight);
                is_it
            })
            .map_or(Kind::Kill, |(kind, _)| kind);
        let kind = only.unwrap_or(kind);
        let ends: &[End] = if kind == Kind::Kill {
            &[End::Kill]
        } else if kind == Kind::PowerCut {
            &[End::PowerCut]
        } else if kind == Kind::Stop {
            &[End::Stop]
        } else if kind == Kind::RotMetadata {
            // With one copy of a block rotten, the other must not be torn.
            &[End::Stop, End::Kill]
        } else {
            &[End::Stop, End::Kill, End::PowerCut]
        };
        let choices = u32::try_from(ends.len()).unwrap_or(1);
        let end = ends[random.below(choices) as usize];
        Self {
            kind,
            end,
            is_cut_short: kind.is_of_device() && random.below(4) == 0,
            settings: Settings::draw(random, policies, kind),
            requests: 200 + u64::from(random.below(1500)),
            load_seed: random.bits(),
        }
    }
}
