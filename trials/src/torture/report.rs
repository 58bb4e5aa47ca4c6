//! Report of a run of `cargo xtask torture`, as a table and as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::plan::Kind;

/// The figures of one kind of fault.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) rounds: u64,
    pub(crate) starts: u64,
    pub(crate) requests: u64,
    pub(crate) checked_sectors: u64,
    pub(crate) explained_errors: u64,
    pub(crate) violations: u64,
    pub(crate) time: Duration,
}

impl Row {
    /// Adds the figures of a round.
    pub(crate) fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.starts += other.starts;
        self.requests += other.requests;
        self.checked_sectors += other.checked_sectors;
        self.explained_errors += other.explained_errors;
        self.violations += other.violations;
        self.time += other.time;
    }
}

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) rows: BTreeMap<Kind, Row>,
    /// The violation that ended the run.
    pub(crate) violation: Option<String>,
}

impl Report {
    pub(crate) fn total(&self) -> Row {
        let mut total = Row::default();
        for row in self.rows.values() {
            total.add(row);
        }
        total
    }

    /// Return the table, in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = "| fault | rounds | starts | requests | sectors checked | errors explained \
                        | violations | seconds |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
        let total = self.total();
        let rows = self.rows.iter().map(|(kind, row)| (kind.name(), row));
        for (name, row) in rows.chain([("all", &total)]) {
            let Row { rounds, starts, requests, checked_sectors, .. } = row;
            let Row { explained_errors, violations, .. } = row;
            text += &format!(
                "| {name} | {rounds} | {starts} | {requests} | {checked_sectors} | \
                 {explained_errors} | {violations} | {:.0} |\n",
                row.time.as_secs_f64()
            );
        }
        text
    }

    /// Return the same for programs.
    pub(crate) fn json(&self) -> Value {
        let row = |name: &str, row: &Row| {
            json!({
                "fault": name,
                "rounds": row.rounds,
                "starts": row.starts,
                "requests": row.requests,
                "checked_sectors": row.checked_sectors,
                "explained_errors": row.explained_errors,
                "violations": row.violations,
                "seconds": row.time.as_secs_f64(),
            })
        };
        let rows: Vec<Value> =
            self.rows.iter().map(|(kind, figures)| row(kind.name(), figures)).collect();
        json!({
            "seed": self.seed,
            "faults": rows,
            "total": row("all", &self.total()),
            "violation": self.violation,
        })
    }
}
