//! The screen of `top`: a headline, figures that scroll, and a line that says how.

use std::time::Instant;

use anyhow::Result;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::Stylize as _;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::view;
use crate::commands::serve::status::Status;

/// Displayed figures, and the position of scrolling.
#[derive(Debug)]
pub(super) struct Screen {
    engine: String,
    before: Status,
    now: Status,
    /// Since when the server does not answer.
    gone: Option<Instant>,
    /// State of the server, until the next figures.
    notice: &'static str,
    /// The first line of the figures that is shown.
    first: usize,
    /// Number of lines that are shown, and that exist.
    shown: usize,
    lines: usize,
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stays,
    Ends,
}

impl Screen {
    /// Create a screen with the first figures of an engine.
    pub(super) fn new(engine: &str, status: Status) -> Self {
        Self {
            engine: engine.to_owned(),
            before: status.clone(),
            now: status,
            gone: None,
            notice: "",
            first: 0,
            shown: 1,
            lines: 0,
        }
    }

    /// Takes newer figures, or that there are none.
    pub(super) fn learns(&mut self, news: Result<Status>) {
        let Ok(status) = news else {
            self.gone.get_or_insert_with(Instant::now);
            return;
        };
        let was_gone = self.gone.take().is_some();
        let is_another = status.uptime_s < self.now.uptime_s;
        self.notice = match (is_another, was_gone) {
            (true, _) => "the server started again: its figures begin at zero",
            (false, true) => "the server answers again",
            (false, false) => "",
        };
        self.before = if is_another {
            status.clone()
        } else {
            std::mem::replace(&mut self.now, status.clone())
        };
        self.now = status;
    }

    /// Takes a key: `q`, Escape and Ctrl-C end it, others scroll.
    pub(super) fn takes(&mut self, event: &Event) -> Next {
        let Event::Key(key) = event else { return Next::Stays };
        if key.kind == KeyEventKind::Release {
            return Next::Stays;
        }
        let is_interrupt =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
            return Next::Ends;
        }
        // A line of the page before stays in view.
        let page = self.shown.saturating_sub(1).max(1);
        let ways = [
            ([KeyCode::Up, KeyCode::Char('k')], self.first.saturating_sub(1)),
            ([KeyCode::Down, KeyCode::Char('j')], self.first + 1),
            ([KeyCode::PageUp, KeyCode::Char('b')], self.first.saturating_sub(page)),
            ([KeyCode::PageDown, KeyCode::Char(' ')], self.first + page),
            ([KeyCode::Home, KeyCode::Char('g')], 0),
            ([KeyCode::End, KeyCode::Char('G')], self.lines),
        ];
        let way = ways.into_iter().find(|(keys, _)| keys.contains(&key.code));
        self.first = way.map_or(self.first, |(_, first)| first);
        self.stay_within();
        Next::Stays
    }

    /// Scrolls no further than to the last line.
    fn stay_within(&mut self) {
        self.first = self.first.min(self.lines.saturating_sub(self.shown));
    }

    /// Draws all of it.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Fill(1)];
        let rows = rows.into_iter().chain([Constraint::Length(1)]);
        let areas = Layout::vertical(rows.collect::<Vec<_>>()).split(frame.area());
        let lines = view::lines(&self.before, &self.now, usize::from(frame.area().width));
        (self.lines, self.shown) = (lines.len(), usize::from(areas[2].height));
        self.stay_within();
        let last = (self.first + self.shown).min(self.lines);
        frame.render_widget(Line::from(view::headline(&self.now)).bold(), areas[0]);
        frame.render_widget(self.state(), areas[1]);
        let mut figures = Paragraph::new(lines[self.first..last].to_vec());
        if self.gone.is_some() {
            figures = figures.dim();
        }
        frame.render_widget(figures, areas[2]);
        let keys = "Up, Down, PgUp, PgDn, Home, End scroll; q ends";
        let foot = format!("lines {}-{last} of {}: {keys}", self.first + 1, self.lines);
        frame.render_widget(Line::from(foot).dim(), areas[3]);
    }

    /// Return the line that says if the server answers.
    fn state(&self) -> Line<'static> {
        match self.gone {
            Some(since) => Line::from(format!(
                "NO ANSWER from {} for {} s; trying again. These are its last figures.",
                self.engine,
                since.elapsed().as_secs()
            ))
            .red()
            .bold(),
            None => Line::from(self.notice).bold(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;

    use super::*;
    use crate::commands::serve::status::{DeviceStatus, ShadowStatus};

    /// Figures as large as they get.
    fn status(uptime_s: f64) -> Status {
        let most: serde_json::Map<_, _> = crate::commands::serve::metrics::engine_figures()
            .map(|about| (about.key.to_owned(), 123_456_789_012_u64.into()))
            .collect();
        let purposes = || vec![("policy".to_owned(), 987_654_321_012)];
        let device = || DeviceStatus {
            read_bytes: purposes(),
            written_bytes: purposes(),
            ..DeviceStatus::default()
        };
        let mut status: Status = serde_json::from_value(serde_json::Value::Object(most))
            .map(|figures| Status { uptime_s, figures, ..Status::default() })
            .unwrap();
        (status.policy, status.write_mode) = ("hat".into(), "back".into());
        (status.flash, status.backing) = (device(), device());
        status.accesses.read.ram = 123_456_789_012;
        status.latency.read.disk.record(std::time::Duration::from_millis(3));
        status.shadows =
            vec![ShadowStatus { name: "face-gsc".into(), ..ShadowStatus::default() }; 4];
        status
    }

    /// Return the rows of the screen.
    fn drawn(screen: &mut Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let row =
            |row: &[ratatui::buffer::Cell]| row.iter().map(ratatui::buffer::Cell::symbol).collect();
        buffer.content.chunks(80).map(row).collect()
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Next {
        screen.takes(&Event::Key(KeyEvent::from(code)))
    }

    #[test]
    fn every_line_fits_a_small_terminal_and_can_be_reached() {
        let mut screen = Screen::new("127.0.0.1:9469", status(100.0));
        screen.learns(Ok(status(101.0)));
        let lines = view::lines(&screen.before, &screen.now, 80);
        let texts: Vec<String> = lines.iter().map(ToString::to_string).collect();
        for text in &texts {
            assert!(text.chars().count() <= 80, "{text}");
        }
        let mut seen = vec![];
        for _ in 0..=texts.len() {
            seen.extend(drawn(&mut screen)[2..23].iter().map(|row| row.trim_end().to_owned()));
            press(&mut screen, KeyCode::PageDown);
        }
        for text in texts {
            assert!(seen.iter().any(|row| *row == text.trim_end()), "{text}\n{seen:#?}");
        }
        assert!(drawn(&mut screen)[23].contains("q ends"));
    }

    #[test]
    fn keys_scroll_within_the_figures() {
        let mut screen = Screen::new("127.0.0.1:9469", status(100.0));
        drawn(&mut screen);
        for (code, first) in [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 21),
            (KeyCode::PageUp, 1),
            (KeyCode::End, screen.lines - 21),
            (KeyCode::Down, screen.lines - 21),
            (KeyCode::Home, 0),
        ] {
            assert_eq!(press(&mut screen, code), Next::Stays);
            assert_eq!(screen.first, first, "{code:?}");
        }
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::Ends);
        assert_eq!(press(&mut screen, KeyCode::Esc), Next::Ends);
    }

    #[test]
    fn a_server_that_is_gone_is_said_and_so_is_its_return() {
        let mut screen = Screen::new("127.0.0.1:9469", status(100.0));
        assert_eq!(drawn(&mut screen)[1].trim(), "");
        screen.learns(Err(anyhow::anyhow!("refused")));
        let rows = drawn(&mut screen);
        assert!(rows[1].starts_with("NO ANSWER from 127.0.0.1:9469 for 0 s"), "{}", rows[1]);
        assert!(rows[0].contains("hat, writes back"), "the last figures stay");
        screen.learns(Ok(status(110.0)));
        assert!(drawn(&mut screen)[1].starts_with("the server answers again"));
        screen.learns(Ok(status(111.0)));
        assert_eq!(drawn(&mut screen)[1].trim(), "");
        // Another one has the address: its counters are lower.
        screen.learns(Err(anyhow::anyhow!("refused")));
        screen.learns(Ok(status(1.0)));
        assert!(drawn(&mut screen)[1].starts_with("the server started again"));
        assert!((screen.before.uptime_s - 1.0).abs() < 1e-9);
    }
}
