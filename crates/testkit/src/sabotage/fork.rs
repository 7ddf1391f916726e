//! Forks that share too much, too little or the wrong thing.

use super::append::has_code;
use super::{Mutant, answers, keeps, miswrites, refusal};
use crate::check::written_for;
use crate::decorator::instead;
use folio_core::{CanonicalEvent, Direction, SessionId};
use folio_store::engine::Snapshot;
use folio_store::rows::RunRow;
use folio_store::{
    AppendBatch, Committed, ContributionBatch, ContributionQuery, ErrorKind, ItemPage, ItemQuery,
    NOTES, NewSession, RangeQuery, SessionInfo, Start, Store, StoreError, StoredEvent, StoredFact,
};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "forks_at_the_head",
        wrong: "a child sees what its parent said behind the fork",
        caught_by: "fork/the_parents_later_events_are_not_the_childs",
        place: answers::<ForksAtTheHead>,
    },
    Mutant {
        name: "forks_one_event_early",
        wrong: "the last event of the prefix is missing",
        caught_by: "fork/a_fork_at_the_head_has_everything",
        place: answers::<ForksOneEventEarly>,
    },
    Mutant {
        name: "forks_what_is_there",
        wrong: "a fork beyond the head is one at the head",
        caught_by: "fork/a_fork_beyond_the_head_is_refused",
        place: answers::<ForksWhatIsThere>,
    },
    Mutant {
        name: "a_refused_fork_is_an_empty_session",
        wrong: "the child of a fork that was refused exists",
        caught_by: "fork/a_refused_fork_leaves_no_mark",
        place: answers::<LeavesAMark>,
    },
    Mutant {
        name: "forks_at_something_only",
        wrong: "a fork in front of the first event is refused",
        caught_by: "fork/a_fork_at_nothing_is_an_empty_session",
        place: answers::<ForksAtSomething>,
    },
    Mutant {
        name: "forks_what_cannot_be_read",
        wrong: "a session in preparation has children",
        caught_by: "fork/what_cannot_be_read_cannot_be_forked",
        place: answers::<ForksTheUnreadable>,
    },
    Mutant {
        name: "forks_onto_what_exists",
        wrong: "a fork with the id of another session answers that one",
        caught_by: "fork/an_id_that_exists_is_refused",
        place: answers::<ForksOntoOthers>,
    },
    Mutant {
        name: "cuts_a_fork_that_is_too_deep",
        wrong: "a fork that is too deep lacks its last event",
        caught_by: "fork/a_fork_has_a_limit_of_depth",
        place: answers::<CutsWhatIsTooDeep>,
    },
    Mutant {
        name: "copies_where_it_cannot_fork",
        wrong: "a lost index row is forked away",
        caught_by: "fork/a_lost_index_row_is_not_forked_away",
        place: answers::<CopiesWhereItCannotFork>,
    },
    Mutant {
        name: "forks_in_front_of_damage",
        wrong: "a fork behind a damaged event is one in front of it",
        caught_by: "fork/a_damaged_event_is_damaged_in_the_child",
        place: answers::<ForksInFrontOfDamage>,
    },
    Mutant {
        name: "copies_notes",
        wrong: "a child begins with its parent's notes",
        caught_by: "fork/notes_are_not_inherited",
        place: answers::<CopiesNotes>,
    },
    Mutant {
        name: "a_child_has_its_parents_id",
        wrong: "a fork answers with the id of the parent",
        caught_by: "fork/a_child_knows_where_it_comes_from",
        place: answers::<KeepsTheParentsId>,
    },
    Mutant {
        name: "forgets_where_it_comes_from",
        wrong: "a child does not know its parent",
        caught_by: "fork/a_child_knows_where_it_comes_from",
        place: answers::<ForgetsWhereItComesFrom>,
    },
    Mutant {
        name: "renumbers_the_child",
        wrong: "the own events of a child are numbered from 1",
        caught_by: "fork/ranges_go_across_the_boundary",
        place: answers::<RenumbersTheChild>,
    },
    Mutant {
        name: "ranges_stop_at_the_boundary",
        wrong: "a range ends where the own events of a child begin",
        caught_by: "fork/ranges_go_across_the_boundary",
        place: answers::<RangesStop>,
    },
    Mutant {
        name: "runs_begin_anew",
        wrong: "a child has its own runs only",
        caught_by: "fork/runs_go_across_the_boundary",
        place: answers::<RunsBeginAnew>,
    },
    Mutant {
        name: "pages_stop_at_the_boundary",
        wrong: "a page ends where the own items of a child begin",
        caught_by: "fork/pages_go_across_the_boundary",
        place: answers::<PagesStop>,
    },
    Mutant {
        name: "shows_the_parents_items",
        wrong: "an inherited item looks as it does in the parent now",
        caught_by: "fork/a_revision_in_the_parent_leaves_the_child_alone",
        place: answers::<ShowsTheParents>,
    },
    Mutant {
        name: "writes_to_the_parent_too",
        wrong: "what is appended to a child is the parent's as well",
        caught_by: "fork/a_revision_in_the_child_leaves_the_parent_alone",
        place: answers::<WritesToTheParentToo>,
    },
    Mutant {
        name: "one_id_space_for_a_family",
        wrong: "an id that the parent used behind the fork is a conflict",
        caught_by: "fork/the_same_new_id_is_two_facts",
        place: answers::<OneIdSpace>,
    },
    Mutant {
        name: "seals_inherited_runs",
        wrong: "a run that was open at the fork takes no events of the child",
        caught_by: "fork/an_open_run_goes_on_in_both",
        place: answers::<SealsInheritedRuns>,
    },
    Mutant {
        name: "forgets_inherited_ids",
        wrong: "an event of the prefix that is sent again is a new one",
        caught_by: "fork/a_repeat_of_the_prefix_is_present",
        place: keeps::<ForgetsTheFamily>,
    },
    Mutant {
        name: "copies_the_lease",
        wrong: "whoever holds the parent holds the child",
        caught_by: "fork/leases_are_not_inherited",
        place: keeps::<CopiesTheLease>,
    },
    Mutant {
        name: "a_child_is_followed_like_its_parent",
        wrong: "a child of a followed session refuses native events",
        caught_by: "fork/a_child_of_a_followed_session_is_a_programs_own",
        place: keeps::<FollowsLikeItsParent>,
    },
];

/// A native session with the first events of another one.
async fn copy(
    inner: &dyn Store,
    of: &SessionId,
    at: u64,
    child: SessionId,
) -> Result<SessionInfo, StoreError> {
    let child = inner.create_session(NewSession::native(child)).await?.id;
    let query = RangeQuery {
        from: 1,
        to: at,
        max_count: usize::MAX,
        max_bytes: usize::MAX,
    };
    let events = inner.range(of, query).await?;
    for stored in events {
        let event = CanonicalEvent::from_view(&stored.view()?, &stored.spine, &child)
            .map_err(|_| refusal(ErrorKind::Corrupt, "undecodable"))?;
        inner
            .append(&child, AppendBatch::native(vec![event]))
            .await?;
    }
    inner.session(&child).await
}

instead!(ForksAtTheHead: fork_session(inner, parent, at, child) {
    let at = inner.session(parent).await?.head.max(at);
    inner.fork_session(parent, at, child).await
});

instead!(ForksOneEventEarly: fork_session(inner, parent, at, child) {
    inner
        .fork_session(parent, at.saturating_sub(1), child)
        .await
});

instead!(ForksWhatIsThere: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    if !has_code(&done, "watermark_unknown") {
        return done;
    }
    let at = inner.session(parent).await?.head;
    inner.fork_session(parent, at, child).await
});

instead!(LeavesAMark: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    if has_code(&done, "watermark_unknown") {
        inner.create_session(NewSession::native(child)).await?;
    }
    done
});

instead!(ForksAtSomething: fork_session(inner, parent, at, child) {
    inner.session(parent).await?;
    if at == 0 {
        return Err(refusal(ErrorKind::Invalid, "watermark_unknown"));
    }
    inner.fork_session(parent, at, child).await
});

instead!(ForksTheUnreadable: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    if has_code(&done, "session_preparing") {
        return inner.create_session(NewSession::native(child)).await;
    }
    done
});

instead!(ForksOntoOthers: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    if has_code(&done, "session_exists") {
        return inner.session(&child).await;
    }
    done
});

instead!(CutsWhatIsTooDeep: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    if has_code(&done, "fork_too_deep") {
        return inner.fork_session(parent, at - 1, child).await;
    }
    done
});

instead!(CopiesWhereItCannotFork: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    if has_code(&done, "index_damaged") {
        return copy(inner, parent, at, child).await;
    }
    done
});

instead!(ForksInFrontOfDamage: fork_session(inner, parent, at, child) {
    let done = inner.fork_session(parent, at, child.clone()).await;
    match &done {
        Err(error) if error.code() == "projection_gap" => {
            let at = error.ordinals().first().map_or(0, |gap| gap - 1);
            inner.fork_session(parent, at, child).await
        }
        _ => done,
    }
});

instead!(CopiesNotes: fork_session(inner, parent, at, child) {
    let info = inner.fork_session(parent, at, child).await?;
    let all = ContributionQuery {
        through: u64::MAX,
        direction: Direction::Newer,
        after: None,
        max_items: 1_000,
    };
    let facts = inner.contributions(parent, NOTES, all).await?;
    let facts: Vec<_> = facts
        .iter()
        .map(StoredFact::fact)
        .collect::<Result<_, _>>()?;
    if !facts.is_empty() {
        let batch = AppendBatch {
            contributions: Some(ContributionBatch::new(NOTES, facts)),
            ..AppendBatch::native(Vec::new())
        };
        inner.append(&info.id, batch).await?;
    }
    Ok(info)
});

instead!(KeepsTheParentsId: fork_session(inner, parent, at, child) {
    let mut info = inner.fork_session(parent, at, child).await?;
    info.id = parent.clone();
    Ok(info)
});

instead!(ForgetsWhereItComesFrom: session(inner, id) {
    let mut info = inner.session(id).await?;
    info.forked_from = None;
    Ok(info)
});

instead!(RenumbersTheChild: range(inner, id, query) {
    let inherited = inner.session(id).await?.inherited;
    let mut events = inner.range(id, query).await?;
    for event in events.iter_mut().filter(|event| event.ordinal > inherited) {
        event.ordinal -= inherited;
    }
    Ok(events)
});

instead!(RangesStop: range(inner, id, query) {
    let mut query = query;
    let inherited = inner.session(id).await?.inherited;
    if query.from <= inherited {
        query.to = query.to.min(inherited);
    }
    inner.range(id, query).await
});

instead!(RunsBeginAnew: runs(inner, id, after, limit) {
    let inherited = inner.session(id).await?.inherited;
    let mut runs = inner.runs(id, after, limit).await?;
    runs.retain(|run| run.opened > inherited);
    Ok(runs)
});

instead!(PagesStop: read_items(inner, id, query) {
    let older = query.direction == Direction::Older;
    let mut page = inner.read_items(id, query).await?;
    let inherited = page.session.inherited;
    if older && inherited > 0 {
        let before = page.items.len();
        page.items
            .retain(|item| item.item.position.ordinal > inherited);
        page.more &= page.items.len() == before;
    }
    Ok(page)
});

instead!(ShowsTheParents: read_items(inner, id, query) {
    let mut page = inner.read_items(id, query).await?;
    let Some(parent) = page.session.forked_from.clone() else {
        return Ok(page);
    };
    for item in &mut page.items {
        if item.item.position.ordinal > page.session.inherited {
            continue;
        }
        let query = ItemQuery {
            through: None,
            direction: Direction::Newer,
            start: Start::Key(item.item.key.clone()),
            max_items: 1,
            max_bytes: usize::MAX,
            member_bytes: usize::MAX,
        };
        if let Ok(parents) = inner.read_items(&parent, query).await {
            *item = parents.items[0].clone();
        }
    }
    Ok(page)
});

instead!(WritesToTheParentToo: append(inner, id, batch) {
    let committed = inner.append(id, batch.clone()).await?;
    if let Some(parent) = inner.session(id).await?.forked_from {
        // What the parent refuses it does not get.
        drop(inner.append(&parent, written_for(&parent, batch)).await);
    }
    Ok(committed)
});

instead!(OneIdSpace: append(inner, id, batch) {
    if let Ok(SessionInfo {
        forked_from: Some(parent),
        inherited,
        ..
    }) = inner.session(id).await
    {
        let ids: Vec<_> = batch.events.iter().map(|event| event.id.clone()).collect();
        let known = inner.lookup_ids(&parent, &ids).await?;
        if known
            .iter()
            .flatten()
            .any(|known| known.ordinal > inherited)
        {
            return Err(refusal(ErrorKind::Conflict, "event_id_conflict"));
        }
    }
    inner.append(id, batch).await
});

instead!(SealsInheritedRuns: append(inner, id, batch) {
    let inherited = inner.session(id).await.map_or(0, |info| info.inherited);
    if inherited > 0 {
        let ids: Vec<_> = batch.events.iter().map(|event| event.id.clone()).collect();
        let known = inner.lookup_ids(id, &ids).await?;
        let mut runs = inner.runs(id, 0, 1_000).await?;
        runs.retain(|run| run.opened <= inherited);
        let goes_on = |event: &CanonicalEvent| {
            runs.iter()
                .any(|run| run.spine.run_id == event.spine.run_id)
        };
        if known
            .iter()
            .zip(&batch.events)
            .any(|(known, event)| known.is_none() && goes_on(event))
        {
            return Err(refusal(ErrorKind::Conflict, "run_sealed"));
        }
    }
    inner.append(id, batch).await
});

miswrites!(ForgetsTheFamily: (txn, writes) {
    if let (Some(log), true) = (&mut writes.log, !writes.spans.is_empty()) {
        log.family = log.log_no;
    }
});

miswrites!(CopiesTheLease: (txn, writes) {
    if let (Some(span), [child]) = (writes.spans.last(), writes.sessions.as_mut_slice())
        && let Some(parent) = txn.session_of_log(span.src)?
    {
        child.lease_owner = parent.lease_owner;
        child.lease_epoch = parent.lease_epoch;
        child.lease_holder = parent.lease_holder;
    }
});

miswrites!(FollowsLikeItsParent: (txn, writes) {
    if let (Some(span), [child]) = (writes.spans.last(), writes.sessions.as_mut_slice())
        && let Some(parent) = txn.session_of_log(span.src)?
    {
        child.followed = parent.followed;
    }
});
