//! `thermocline top`: the figures of a running engine in the terminal, live.

mod view;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::arguments::TopOptions;
use crate::commands::serve::status::Status;

/// Runs the command until a key ends it; on anything but a terminal, or with `--once`, prints the
/// figures of one interval.
pub(crate) fn run(options: &TopOptions) -> Result<String> {
    if options.once || !std::io::stdout().is_terminal() {
        let before = fetch(&options.engine)?;
        std::thread::sleep(options.interval);
        return Ok(view::text(&before, &fetch(&options.engine)?));
    }
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let result = watch(&mut terminal, &options.engine, options.interval);
    ratatui::restore();
    result.map(|()| String::new())
}

fn watch(terminal: &mut ratatui::DefaultTerminal, engine: &str, interval: Duration) -> Result<()> {
    let mut before = fetch(engine)?;
    let mut now = before.clone();
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view::draw(frame, &before, &now)).context("cannot draw")?;
        let wait = next.saturating_duration_since(Instant::now());
        if event::poll(wait).context("cannot read the keyboard")? {
            if is_end(&event::read().context("cannot read the keyboard")?) {
                return Ok(());
            }
            continue;
        }
        before = std::mem::replace(&mut now, fetch(engine)?);
        next = Instant::now() + interval;
    }
}

/// Whether this is `q`, Escape or Ctrl-C.
fn is_end(event: &Event) -> bool {
    let Event::Key(key) = event else { return false };
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press
        && (is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc))
}

/// The snapshot of an engine whose metrics are served there.
fn fetch(engine: &str) -> Result<Status> {
    let url = format!("http://{engine}/status");
    let context =
        || format!("no engine answers at `{url}`; give its `metrics.listen` address with --engine");
    let mut response = ureq::get(&url).call().with_context(context)?;
    response.body_mut().read_json().with_context(context)
}
