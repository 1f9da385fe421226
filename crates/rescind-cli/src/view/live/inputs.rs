//! The inputs of the view beside the recording: keys, and what is wrong with it. There is no terminal here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw;
use super::state::{Live, Page, Typed};
use crate::view::files::Flaws;
use crate::view::filter::Filter;

/// A longer filter is not typed.
const FILTER: usize = 1_000;
/// The number of rows that the page keys go.
const PAGE: isize = 10;

impl Live {
    /// Takes what is wrong with what was read so far.
    pub(super) fn flaws(&mut self, flaws: &Flaws) {
        self.is_changed |= self.forgotten.flaws != *flaws;
        self.forgotten.flaws.clone_from(flaws);
    }

    /// Takes a key. [`refresh`](Self::refresh) shows its effect.
    pub(super) fn key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over |= key.code == KeyCode::Char('c');
            return;
        }
        if let Some(typed) = self.typed.take() {
            return self.type_filter(typed, key.code);
        }
        match (self.page, key.code) {
            (_, KeyCode::Char('q')) => self.is_over = true,
            (_, KeyCode::Char('p')) => self.is_paused = !self.is_paused,
            (Page::Keys, _) => self.page = Page::Table,
            (_, KeyCode::Char('?')) => self.page = Page::Keys,
            (_, KeyCode::Char('/')) => {
                self.page = Page::Table;
                self.typed = Some(Typed { text: self.filter_text.clone(), problem: None });
            }
            (_, KeyCode::Char('f')) => self.follow(!self.is_following),
            (Page::Messages(_), KeyCode::Esc | KeyCode::Enter) => self.page = Page::Table,
            (Page::Messages(top), code) => {
                let last = draw::messages(self).len().saturating_sub(1);
                self.page = Page::Messages(top.saturating_add_signed(steps(code)).min(last));
            }
            (Page::Table, KeyCode::Enter) if self.selected().is_some() => {
                self.follow(false);
                self.page = Page::Messages(0);
            }
            (Page::Table, code) => self.select(code),
        }
    }

    fn follow(&mut self, is_following: bool) {
        self.is_following = is_following;
        self.is_changed = true;
    }

    /// Another request. What is selected may have been forgotten, or be hidden by a filter.
    fn select(&mut self, code: KeyCode) {
        let steps = steps(code);
        let Some(last) = self.shown.len().checked_sub(1).filter(|_| steps != 0) else { return };
        let place = self.place().saturating_add_signed(steps).min(last);
        self.selected = Some(self.shown[place]);
        self.is_following = code == KeyCode::End;
    }

    fn type_filter(&mut self, mut typed: Typed, code: KeyCode) {
        match code {
            KeyCode::Esc => return,
            KeyCode::Enter => {
                let text = typed.text.trim();
                let filter = (!text.is_empty()).then(|| Filter::parse(text)).transpose();
                match filter {
                    Ok(filter) => {
                        (self.filter, self.filter_text) = (filter, text.into());
                        self.is_changed = true;
                        return;
                    }
                    Err(error) => typed.problem = Some(error),
                }
            }
            KeyCode::Backspace => {
                typed.text.pop();
            }
            KeyCode::Char(c) if typed.text.chars().count() < FILTER => typed.text.push(c),
            _ => {}
        }
        self.typed = Some(typed);
    }
}

/// Returns the number of rows that a key goes.
const fn steps(code: KeyCode) -> isize {
    match code {
        KeyCode::Up | KeyCode::Char('k') => -1,
        KeyCode::Down | KeyCode::Char('j') => 1,
        KeyCode::PageUp => -PAGE,
        KeyCode::PageDown => PAGE,
        KeyCode::Home => isize::MIN,
        KeyCode::End => isize::MAX,
        _ => 0,
    }
}
