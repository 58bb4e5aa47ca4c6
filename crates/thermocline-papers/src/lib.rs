//! Studies: the experiments of five papers, run again, with their figures beside ours.
//!
//! Each study has a folder with `experiment.toml`: what is run on which trace with which policies, and
//! which claims are judged and how. The code beside it says how a run is made, how a claim of a kind
//! is judged and what the report shows; one harness, `study.rs`, does the rest for all of them.
//!
//! ```
//! use thermocline_papers::{STUDIES, find};
//!
//! let names: Vec<&str> = STUDIES.iter().map(|study| study.name).collect();
//! assert_eq!(names, ["hat", "hca", "hfa", "hwb", "mbf", "shipped"]);
//! let study = find("hat").expect("a study of the table").reproduction()?;
//! assert_eq!(study.workloads()[0].name, "TPC-B");
//! assert_eq!(study.claims()[0].verdict.words(), "not run");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod annotated;
mod claim;
mod figures;
mod hat;
mod hca;
mod hfa;
mod hierarchy;
mod hwb;
mod mbf;
mod origin;
mod shipped;
mod study;
mod workload;

pub use annotated::Annotated;
pub use claim::{Claim, Verdict};
pub use hca::Figures as HcaFigures;
pub use shipped::{Camp, Entrant, entrants as shipped_and_published};
pub use study::{Reproduction, StudyEntry, StudyError, TextTable};
pub use workload::{Named, Source, Take, Wanted, Zipf};

/// The studies, by name.
pub const STUDIES: &[StudyEntry] = &[
    StudyEntry {
        name: "hat",
        summary: "Hotness-Aware Hit: Figure 2 and the non-hot ratio",
        file: include_str!("hat/experiment.toml"),
        open: study::open::<hat::Experiment>,
    },
    StudyEntry {
        name: "hca",
        summary: "Hybrid caching architecture: Tables I to VIII, Figures 5 to 28",
        file: include_str!("hca/experiment.toml"),
        open: study::open::<hca::Experiment>,
    },
    StudyEntry {
        name: "hfa",
        summary: "Hint frequencies: Figures 1 and 4 to 10, Table 4",
        file: include_str!("hfa/experiment.toml"),
        open: study::open::<hfa::Experiment>,
    },
    StudyEntry {
        name: "hwb",
        summary: "Hotness-aware write buffer: Figures 1, 2 and 5 to 7, and an ablation",
        file: include_str!("hwb/experiment.toml"),
        open: study::open::<hwb::Experiment>,
    },
    StudyEntry {
        name: "mbf",
        summary: "Multiple bloom filters: Figures 6 and 8 to 15",
        file: include_str!("mbf/experiment.toml"),
        open: study::open::<mbf::Experiment>,
    },
    StudyEntry {
        name: "shipped",
        summary: "Caches that systems ship, beside published ones; our own comparison",
        file: shipped::FILE,
        open: study::open::<shipped::Experiment>,
    },
];

/// Find a study by its name.
pub fn find(name: &str) -> Option<&'static StudyEntry> {
    STUDIES.iter().find(|study| study.name == name)
}
