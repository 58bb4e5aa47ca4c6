//! The harness of all studies: their files, the runs on each trace, the verdicts and the report.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thermocline_core::ConfigError;
use thermocline_device::queueing::QueueingError;
use thermocline_lab::LabError;
use thermocline_lab::report::{Cell, Report, Table};
use thermocline_trace::{CompiledTrace, PageSize};

use crate::claim::{self, Claim, Stated};
use crate::figures::figures;
use crate::workload::{Wanted, Workload};

/// A study that can be run.
#[derive(Clone, Copy, Debug)]
pub struct StudyEntry {
    /// Its name.
    pub name: &'static str,
    /// Content of the study, in one line.
    pub summary: &'static str,
    /// Its `experiment.toml`.
    pub(crate) file: &'static str,
    pub(crate) open: fn(&Self) -> Result<Box<dyn Reproduction>, StudyError>,
}

/// Callback after each run that is finished.
pub(crate) type Done<'a> = &'a (dyn Fn() + Sync);

/// The experiments of one study: what its file has below `[study]`, and how that is run and judged.
pub(crate) trait Study: DeserializeOwned + 'static {
    /// Description of a workload in the file, besides its name and its trace.
    type About: DeserializeOwned + Default;
    /// Rule by which a claim of the file is judged.
    type Judge: DeserializeOwned;
    /// Results, in the order of the runs.
    type Results: Default + Serialize;

    /// Check what the types of the file cannot.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Return the text of the report before the claims.
    fn introduction(&self) -> Option<String> {
        None
    }

    /// Return the page size for a trace that states this one.
    fn page_size(&self, stated: Option<PageSize>) -> Result<PageSize, LabError> {
        Ok(stated.unwrap_or(PageSize::DEFAULT))
    }

    /// Return the number of runs that need no trace.
    fn runs_alone(&self) -> usize {
        0
    }

    /// `true` if the runs that need no trace can be made on the engine.
    const HAS_ENGINE: bool = false;

    /// Make the runs that need no trace; on the engine if there is a scale, by which sizes and time are
    /// divided.
    fn run_alone(
        &self,
        _engine_scale: Option<u32>,
        _results: &mut Self::Results,
        _done: Done<'_>,
    ) -> Result<(), StudyError> {
        Ok(())
    }

    /// Return the number of runs on a workload.
    fn runs(&self, workload: &Workload<Self::About>) -> usize;

    /// Make the runs on the trace of a workload.
    fn run(
        &self,
        workload: &Workload<Self::About>,
        trace: &CompiledTrace,
        results: &mut Self::Results,
        done: Done<'_>,
    ) -> Result<(), LabError>;

    /// Judge the claims of the file, in their order; one may stand for several workloads, also for those
    /// that were not run.
    fn judge(
        &self,
        workloads: &[Workload<Self::About>],
        stated: &[Stated<Self::Judge>],
        results: &Self::Results,
    ) -> Vec<Claim>;

    /// Return the main figures, for a terminal.
    fn tables(&self, results: &Self::Results) -> Vec<TextTable>;

    /// Tables for the study's page besides that of the claims. Each has a title, by which the page names
    /// its place.
    fn page_tables(&self, _results: &Self::Results) -> Vec<TextTable> {
        vec![]
    }

    /// Add to a report what comes after the claims.
    fn report(&self, results: &Self::Results, report: &mut Report);
}

/// A study while its experiments are run.
pub trait Reproduction {
    /// Return the workloads of the file.
    fn workloads(&self) -> Vec<Wanted<'_>>;

    /// Return the number of runs if these workloads are run, by their places in [`workloads`].
    ///
    /// [`workloads`]: Self::workloads
    fn runs(&self, workloads: &[usize]) -> usize;

    /// Return the page size that a trace is to be compiled with, if it states this one.
    ///
    /// # Errors
    /// If a device of the file does not exist.
    fn page_size(&self, stated: Option<PageSize>) -> Result<PageSize, LabError>;

    /// Make the runs that need no trace; `done` is told each time that one is finished.
    ///
    /// # Errors
    /// If the file names something that does not exist.
    fn run_alone(&mut self, done: &(dyn Fn() + Sync)) -> Result<(), StudyError>;

    /// Make the runs that need no trace on the engine, with sizes and time divided by `scale`, which is
    /// at least 1. Its devices and its clock are simulated.
    ///
    /// # Errors
    /// [`StudyError::NoEngine`] if the study has no such experiments, or a scale that the engine
    /// cannot run.
    fn run_on_engine(&mut self, scale: u32, done: &(dyn Fn() + Sync)) -> Result<(), StudyError>;

    /// Make the runs on the trace of a workload; `done` is told each time that one is finished.
    ///
    /// # Errors
    /// If the file names something that does not exist, or the experiments do not support the
    /// trace.
    fn run(
        &mut self,
        workload: usize,
        trace: &CompiledTrace,
        done: &(dyn Fn() + Sync),
    ) -> Result<(), LabError>;

    /// Return the study's claims with the measurements so far.
    fn claims(&self) -> Vec<Claim>;

    /// Return the main figures and the claims, for a terminal.
    fn tables(&self) -> Vec<TextTable>;

    /// Check that the paper has a figure of this number that is made again.
    ///
    /// # Errors
    /// [`StudyError::NoFigure`].
    fn check_figure(&self, number: u32) -> Result<(), StudyError>;

    /// Return the numbers of the paper's figures that are made again, in ascending order.
    fn figures(&self) -> &[u32];

    /// Return the report: of all that was run, or of one of the paper's figures. `version` names
    /// the program.
    fn report(&self, version: &str, figure: Option<u32>) -> Report;

    /// Return the claims and everything that was found, as JSON.
    ///
    /// # Errors
    /// Never: all findings have a JSON form.
    fn json(&self) -> Result<String, serde_json::Error>;
}

/// Reason why a study cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// An experiment file is not as expected.
    #[error("the experiment file of `{study}` is invalid: {reason}")]
    BadExperiment {
        /// The study.
        study: &'static str,
        /// Fault, with line and column.
        reason: String,
    },
    /// The file asks for what does not exist.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// None of the study's experiments can run on the engine.
    #[error("`{study}` has no experiments that run on the engine")]
    NoEngine {
        /// The study.
        study: &'static str,
    },
    /// None of the study's figures has this number.
    #[error("`{study}` makes no Figure {number} again{}", known(.figures))]
    NoFigure {
        /// The study.
        study: &'static str,
        /// The number.
        number: u32,
        /// Numbers of the figures that it makes.
        figures: Vec<u32>,
    },
    /// The engine cannot run an experiment.
    #[error("the engine cannot run the experiment: {reason}")]
    Engine {
        /// Reason.
        reason: String,
    },
}

/// Return the figures that are made again, in words.
fn known(figures: &[u32]) -> String {
    if figures.is_empty() {
        return ": it has none".into();
    }
    let all: Vec<String> = figures.iter().map(ToString::to_string).collect();
    format!("; it makes {}", all.join(", "))
}

impl From<ConfigError> for StudyError {
    fn from(error: ConfigError) -> Self {
        Self::Lab(error.into())
    }
}

impl From<QueueingError> for StudyError {
    fn from(error: QueueingError) -> Self {
        Self::Lab(error.into())
    }
}

/// A table as words, for a terminal.
#[derive(Clone, Debug, Serialize)]
pub struct TextTable {
    /// Title above it.
    pub title: Option<String>,
    /// The titles of the columns.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
    /// The columns from this one on hold numbers.
    #[serde(skip)]
    pub numbers_from: usize,
}

/// An experiment file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound = "")]
pub(crate) struct File<S: Study> {
    title: String,
    source: String,
    /// The numbers of the paper's figures that the report makes again.
    #[serde(default)]
    figures: Vec<u32>,
    pub(crate) study: S,
    #[serde(rename = "workload")]
    workloads: Vec<Workload<S::About>>,
    #[serde(rename = "claim")]
    pub(crate) claims: Vec<Stated<S::Judge>>,
}

/// Contents of the file, and the results so far.
struct Running<S: Study> {
    name: &'static str,
    file: File<S>,
    results: S::Results,
    /// The places of the workloads that were run.
    ran: Vec<usize>,
}

/// Read an experiment file, or say what is wrong with it.
pub(crate) fn parse<S: Study>(text: &str) -> Result<File<S>, String> {
    let file: File<S> = toml::from_str(text).map_err(|error| error.to_string())?;
    file.study.check()?;
    Ok(file)
}

impl StudyEntry {
    /// Read its file, to run what it says.
    ///
    /// # Errors
    /// If the file is invalid, with line and column.
    pub fn reproduction(&self) -> Result<Box<dyn Reproduction>, StudyError> {
        (self.open)(self)
    }
}

/// Read the file of a study.
pub(crate) fn open<S: Study>(entry: &StudyEntry) -> Result<Box<dyn Reproduction>, StudyError> {
    let wrong = |reason| StudyError::BadExperiment { study: entry.name, reason };
    let file: File<S> = parse(entry.file).map_err(wrong)?;
    Ok(Box::new(Running { name: entry.name, file, results: S::Results::default(), ran: vec![] }))
}

impl<S: Study> Reproduction for Running<S> {
    fn workloads(&self) -> Vec<Wanted<'_>> {
        let all = self.file.workloads.iter();
        all.map(|one| Wanted {
            name: &one.name,
            source: &one.trace,
            take: &one.take,
            is_original: one.is_original,
        })
        .collect()
    }

    fn runs(&self, workloads: &[usize]) -> usize {
        let File { study, workloads: all, .. } = &self.file;
        let runs = workloads.iter().map(|&workload| study.runs(&all[workload]));
        study.runs_alone() + runs.sum::<usize>()
    }

    fn page_size(&self, stated: Option<PageSize>) -> Result<PageSize, LabError> {
        self.file.study.page_size(stated)
    }

    fn run_alone(&mut self, done: Done<'_>) -> Result<(), StudyError> {
        self.file.study.run_alone(None, &mut self.results, done)
    }

    fn run_on_engine(&mut self, scale: u32, done: Done<'_>) -> Result<(), StudyError> {
        if !S::HAS_ENGINE {
            return Err(StudyError::NoEngine { study: self.name });
        }
        self.file.study.run_alone(Some(scale.max(1)), &mut self.results, done)
    }

    fn run(
        &mut self,
        workload: usize,
        trace: &CompiledTrace,
        done: Done<'_>,
    ) -> Result<(), LabError> {
        self.file.study.run(&self.file.workloads[workload], trace, &mut self.results, done)?;
        self.ran.push(workload);
        Ok(())
    }

    fn claims(&self) -> Vec<Claim> {
        let File { study, workloads, claims, .. } = &self.file;
        study.judge(workloads, claims, &self.results)
    }

    fn tables(&self) -> Vec<TextTable> {
        let mut tables = self.file.study.tables(&self.results);
        tables.push(claim::text_table(&self.claims()));
        tables
    }

    fn check_figure(&self, number: u32) -> Result<(), StudyError> {
        let File { figures, .. } = &self.file;
        if figures.contains(&number) {
            return Ok(());
        }
        Err(StudyError::NoFigure { study: self.name, number, figures: figures.clone() })
    }

    fn figures(&self) -> &[u32] {
        &self.file.figures
    }

    fn report(&self, version: &str, figure: Option<u32>) -> Report {
        let File { title, source, study, .. } = &self.file;
        let mut report = Report::new(title);
        let claims = self.claims();
        if figure.is_none() {
            report.answer(&claim::verdict(&claims));
        }
        report.paragraph(source);
        if let Some(introduction) = study.introduction() {
            report.paragraph(&introduction);
        }
        if figure.is_none() {
            report.heading("Claims");
            report.table(claim::table(&claims));
        }
        study.report(&self.results, &mut report);
        let mut command = format!("thermocline reproduce {} --traces DIR", self.name);
        match figure {
            Some(number) => {
                report.retain(|title| figures(title).contains(&number));
                command += &format!(" --figure {number}");
            }
            None => self.add_missing(&mut report),
        }
        report.heading("How to make this report again");
        report.code(&command);
        report.paragraph(version);
        report
    }

    fn json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Found<'a, Results> {
            claims: Vec<Claim>,
            #[serde(skip_serializing_if = "Vec::is_empty")]
            tables: Vec<TextTable>,
            workloads: &'a Results,
        }
        let (claims, tables) = (self.claims(), self.file.study.page_tables(&self.results));
        serde_json::to_string_pretty(&Found { claims, tables, workloads: &self.results })
    }
}

impl<S: Study> Running<S> {
    /// Adds which traces were not run, and where they can be had.
    fn add_missing(&self, report: &mut Report) {
        let missing = self.file.workloads.iter().enumerate();
        let missing = missing.filter(|(place, _)| !self.ran.contains(place));
        let row = |(_, workload): (usize, &Workload<S::About>)| {
            let files = workload.trace.file_names()?;
            let role = if workload.is_original { "original" } else { "stand-in" };
            let origin = workload.trace.origin().unwrap_or("-");
            Some(vec![&workload.name, role, &files, origin].into_iter().map(Cell::text).collect())
        };
        let rows: Vec<Vec<Cell>> = missing.filter_map(row).collect();
        if rows.is_empty() {
            return;
        }
        report.heading("Traces that are missing");
        report.paragraph(
            "Put them into the folder of --traces DIR, or into a folder in it, in any format.",
        );
        let header = header(&["workload", "trace", "files", "where it can be had"]);
        report.table(Table { header, rows });
    }
}

/// Adds tables to a report, each after its title.
pub(crate) fn add_titled(report: &mut Report, tables: Vec<TextTable>) {
    for table in tables {
        if let Some(title) = &table.title {
            report.paragraph(title);
        }
        report.table(table.into_table());
    }
}

impl TextTable {
    /// Create a row of figures for each trace.
    pub(crate) fn of_traces(
        title: &str,
        columns: &[&str],
        rows: impl Iterator<Item = (String, Vec<String>)>,
    ) -> Self {
        let row = |(trace, cells)| [trace].into_iter().chain(cells).collect();
        Self {
            title: Some(title.to_owned()),
            header: header(&[&["trace"], columns].concat()),
            rows: rows.map(row).collect(),
            numbers_from: 1,
        }
    }

    /// Return the same for a report, where the first column is always words.
    pub(crate) fn into_table(self) -> Table {
        let words = self.numbers_from.max(1);
        let cell = |(column, text): (usize, String)| {
            if column < words { Cell::text(text) } else { Cell::number(text) }
        };
        let rows = self.rows.into_iter().map(|row| row.into_iter().enumerate().map(cell).collect());
        Table { header: self.header, rows: rows.collect() }
    }
}

/// Return the titles of the columns of a table.
pub(crate) fn header(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|&title| title.into()).collect()
}

/// Return each name once, in the order in which they come.
pub(crate) fn in_order<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut all: Vec<&str> = vec![];
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
