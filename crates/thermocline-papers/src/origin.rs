//! Sources of public traces.

use crate::workload::{Named, Source};

/// Prefixes of files' names, and the place where these are published.
const ORIGINS: [(&[&str], &str); 7] = [
    (&["financial", "fin1", "websearch"], "UMass Trace Repository, storage traces"),
    (&["homes", "fiu-homes"], "SNIA IOTTA, block traces of FIU"),
    (&["msnfs", "msn-sfs", "exchange", "w2k8.tpc"], "SNIA IOTTA, traces of Microsoft's servers"),
    (&["src1_2", "src2_0", "stg_", "prxy_0"], "SNIA IOTTA, traces of MSR Cambridge"),
    (&["arc-"], "the authors of the ARC paper, FAST 2003"),
    (&["cloudphysics"], "CloudPhysics, with libCacheSim"),
    (
        &["tpcb", "tatp", "tpch", "mlk"],
        "your own recording by `thermocline trace record`: docs/recording.md",
    ),
];

impl Source {
    /// Return the place where its files are published, if it is known.
    pub fn origin(&self) -> Option<&'static str> {
        let Self::Files(names) = self else { return None };
        let of = |name: &str| {
            let name = name.to_lowercase();
            let begins =
                |(begins, _): &&(&[&str], _)| begins.iter().any(|begin| name.starts_with(begin));
            ORIGINS.iter().find(begins).map(|(_, origin)| *origin)
        };
        names.iter().find_map(|named| match named {
            Named::One(name) => of(name),
            Named::Many { parts, .. } => parts.iter().find_map(|part| of(part)),
        })
    }

    /// Return the names of its files, as patterns; `None` if it has none.
    pub fn file_names(&self) -> Option<String> {
        let Self::Files(names) = self else { return None };
        Some(names.iter().map(Named::pattern).collect::<Vec<String>>().join(" or "))
    }
}

impl Named {
    /// Return the names of the files, as a pattern.
    pub fn pattern(&self) -> String {
        match self {
            Self::One(name) => format!("{name}.*"),
            Self::Many { parts, .. } => parts.join(" + "),
        }
    }
}
