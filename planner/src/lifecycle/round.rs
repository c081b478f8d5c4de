//! A question to all ranks, and what their answers come to.
//!
//! For each rank there is one answer, which is written once. So what the answers come to depends on the answers, and not
//! on the order in which they arrive: whoever hears the same answers concludes the same.

use serde::{Deserialize, Serialize};

use super::rank::{Rank, Ranks};

/// What a rank says of what it was asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is done, completely. Nothing of it runs any more.
    Done,
    /// It was given up before it was done. Nothing of it runs any more.
    Acknowledged,
    /// It failed. Nothing of it runs any more.
    Failed,
}

/// What the answers of a round come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Some rank has not answered: it may still be copying.
    Open,
    /// All have done it.
    Whole(Whole),
    /// All have answered, and at least one has not done it.
    Broken,
}

/// Says that every rank has done its part of an import. Only the answers of all ranks make one, and without one nothing
/// is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Whole(());

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It is the rank's answer.
    First,
    /// The rank had said the same before.
    Again,
    /// The rank is lost: its answer was given in its stead.
    Late,
    /// The rank had said something else before, or was not asked. Its first answer stands.
    Contradicts,
}

/// One question, and the answers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Round {
    /// Counted from 1 by each request; 0 is no round.
    pub number: u32,
    asked: Ranks,
    done: Ranks,
    acknowledged: Ranks,
    failed: Ranks,
    lost: Ranks,
}

impl Round {
    /// The next round, of these ranks.
    pub fn next(self, asked: Ranks) -> Self {
        Self { number: self.number.saturating_add(1), asked, ..Self::default() }
    }

    /// Ranks that have not answered.
    pub const fn awaited(self) -> Ranks {
        self.asked.without(self.done).without(self.acknowledged).without(self.failed).without(self.lost)
    }

    /// Writes a rank's answer down, once.
    pub fn hear(&mut self, rank: Rank, answer: Answer) -> Heard {
        if self.lost.contains(rank) {
            return Heard::Late;
        }
        if self.awaited().contains(rank) {
            self.said(answer).insert(rank);
            return Heard::First;
        }
        if self.said(answer).contains(rank) { Heard::Again } else { Heard::Contradicts }
    }

    /// Answers for a rank that will not. Whether it was awaited.
    pub const fn lose(&mut self, rank: Rank) -> bool {
        let awaited = self.awaited().contains(rank);
        if awaited {
            self.lost.insert(rank);
        }
        awaited
    }

    /// What the answers come to.
    pub fn verdict(self) -> Verdict {
        if !self.awaited().is_empty() {
            return Verdict::Open;
        }
        let all = !self.asked.is_empty() && self.asked.without(self.done).is_empty();
        if all { Verdict::Whole(Whole(())) } else { Verdict::Broken }
    }

    const fn said(&mut self, answer: Answer) -> &mut Ranks {
        match answer {
            Answer::Done => &mut self.done,
            Answer::Acknowledged => &mut self.acknowledged,
            Answer::Failed => &mut self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: [Answer; 3] = [Answer::Done, Answer::Acknowledged, Answer::Failed];

    /// Every order of three ranks' answers, each also said twice.
    #[test]
    fn case_17_the_order_of_answers_does_not_matter() {
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for given in (0..27_usize).map(|n| [n % 3, n / 3 % 3, n / 9].map(|n| ANSWERS[n])) {
            let rounds = orders.map(|order| {
                let mut round = Round::default().next(Ranks::first(3));
                for (heard, rank) in order.iter().enumerate() {
                    assert_eq!(round.verdict(), Verdict::Open, "{heard} of 3 have answered");
                    assert_eq!(round.hear(Rank::new(*rank), given[usize::from(*rank)]), Heard::First);
                    assert_eq!(round.hear(Rank::new(*rank), given[usize::from(*rank)]), Heard::Again);
                }
                round
            });
            assert!(rounds.iter().all(|round| *round == rounds[0]));
            let whole = matches!(rounds[0].verdict(), Verdict::Whole(_));
            assert_eq!(whole, given == [Answer::Done; 3]);
        }
    }

    #[test]
    fn the_first_answer_stands() {
        let mut round = Round::default().next(Ranks::first(2));
        round.hear(Rank::new(0), Answer::Failed);
        assert_eq!(round.hear(Rank::new(0), Answer::Done), Heard::Contradicts);
        assert_eq!(round.hear(Rank::new(2), Answer::Done), Heard::Contradicts, "it was not asked");
        round.hear(Rank::new(1), Answer::Done);
        assert_eq!(round.verdict(), Verdict::Broken);
    }

    #[test]
    fn a_lost_rank_is_not_awaited_and_makes_nothing_whole() {
        let mut round = Round::default().next(Ranks::first(2));
        round.hear(Rank::new(0), Answer::Done);
        assert!(round.lose(Rank::new(1)));
        assert_eq!((round.verdict(), round.hear(Rank::new(1), Answer::Done)), (Verdict::Broken, Heard::Late));
        assert_eq!(round.verdict(), Verdict::Broken);
        assert!(!round.lose(Rank::new(0)), "it had answered");
        assert_eq!(Round::default().next(Ranks::NONE).verdict(), Verdict::Broken, "nobody was asked");
    }
}
