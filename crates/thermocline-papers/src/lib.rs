//! The experiments of five papers, run again: their figures beside ours.
//!
//! Each paper has a folder with `experiment.toml`: what is run on which trace with which policies, and
//! which claims are judged and how. The code beside it says how a run is made, how a claim of a kind
//! is judged and what the report shows; one harness, `study.rs`, does the rest for all of them.
//!
//! ```
//! use thermocline_papers::{PAPERS, find};
//!
//! let names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
//! assert_eq!(names, ["hat", "hca", "hfa", "hwb", "mbf"]);
//! let paper = find("hat").expect("a paper of the table").reproduction()?;
//! assert_eq!(paper.workloads()[0].name, "TPC-B");
//! assert_eq!(paper.claims()[0].verdict.words(), "not run");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod annotated;
mod claim;
mod hat;
mod hca;
mod hfa;
mod hierarchy;
mod hwb;
mod mbf;
mod study;
mod workload;

pub use annotated::Annotated;
pub use claim::{Claim, Verdict};
pub use hca::Figures as HcaFigures;
pub use study::{Paper, PaperError, Reproduction, TextTable};
pub use workload::{Named, Source, Take, Wanted, Zipf};

/// The papers, by name.
pub const PAPERS: &[Paper] = &[
    Paper {
        name: "hat",
        summary: "Hotness-Aware Hit: Figure 2 and the non-hot ratio",
        file: include_str!("hat/experiment.toml"),
        open: study::open::<hat::Experiment>,
    },
    Paper {
        name: "hca",
        summary: "Hybrid caching architecture: Tables I to VIII, Figures 5 to 28",
        file: include_str!("hca/experiment.toml"),
        open: study::open::<hca::Experiment>,
    },
    Paper {
        name: "hfa",
        summary: "Hint frequencies: Figures 1 and 4 to 10, Table 4",
        file: include_str!("hfa/experiment.toml"),
        open: study::open::<hfa::Experiment>,
    },
    Paper {
        name: "hwb",
        summary: "Hotness-aware write buffer: Figures 1, 2 and 5 to 7, and an ablation",
        file: include_str!("hwb/experiment.toml"),
        open: study::open::<hwb::Experiment>,
    },
    Paper {
        name: "mbf",
        summary: "Multiple bloom filters: Figures 6 and 8 to 15",
        file: include_str!("mbf/experiment.toml"),
        open: study::open::<mbf::Experiment>,
    },
];

/// Find a paper by its name.
pub fn find(name: &str) -> Option<&'static Paper> {
    PAPERS.iter().find(|paper| paper.name == name)
}
