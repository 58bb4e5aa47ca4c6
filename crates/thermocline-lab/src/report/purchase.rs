//! The frame that the reports of plans share: what to buy, what else is on the front, and what is not
//! recommended.

use super::{Cell, Options, Report, ScatterChart, Table};

/// The parts of a report about what to buy.
pub(super) struct Purchase {
    /// The verdict: the sentence that recommends, and its reasons.
    pub(super) answer: Vec<String>,
    /// The trace, the budget and the objective.
    pub(super) basis: Vec<String>,
    /// Cost and the figure that the user asked for.
    pub(super) chart: ScatterChart,
    /// Titles of columns and their meaning.
    pub(super) definitions: Vec<(String, &'static str)>,
    /// Titles of the columns.
    pub(super) header: Vec<String>,
    /// The choices that no other choice beats.
    pub(super) front: Vec<Vec<Cell>>,
    /// The choices that are not recommended. The last cell of each row is the reason.
    pub(super) struck_out: Vec<Vec<Cell>>,
    /// One sentence on why choices are struck out.
    pub(super) why_struck_out: &'static str,
    /// The number of candidates, and how they were simulated.
    pub(super) method: String,
}

impl Purchase {
    /// Return the report.
    pub(super) fn report(self, options: &Options) -> Report {
        let mut report = Report::new(&options.title);
        report.answer(&self.answer);
        for paragraph in &self.basis {
            report.paragraph(paragraph);
        }
        report.heading("What no other choice beats");
        report.paragraph(
            "No other choice is better in one of cost, the figure that is asked for and lifetime \
             without being worse in another. A star marks what is recommended.",
        );
        report.chart(&self.chart);
        for (title, meaning) in self.definitions {
            report.define(title, meaning);
        }
        report.table(Table { header: self.header.clone(), rows: self.front });
        if !self.struck_out.is_empty() {
            report.heading("Not recommended");
            report.paragraph(self.why_struck_out);
            let header = [self.header, vec!["why not".into()]].concat();
            report.table(Table { header, rows: self.struck_out });
        }
        report.heading("How it was found");
        report.paragraph(&self.method);
        report.heading("How to make this report again");
        report.code(&options.command);
        report.paragraph(&options.version);
        report
    }
}
