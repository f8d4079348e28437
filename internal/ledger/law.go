package ledger

// law answers, within one cell, which claims dominate which. It remembers what it worked out.
type law struct {
	cell    Cell
	tainted map[int]bool
}

func newLaw(c Cell) *law { return &law{cell: c, tainted: make(map[int]bool, len(c))} }

// isDominated tells whether some claim puts claim i out of question: it proves more than an attempt, began after
// i ended, speaks of the same place, and its service surely restarted.
func (l *law) isDominated(i int) bool {
	for j := range l.cell {
		if j != i && l.cell[j].Strength >= Delivered && l.after(j, i) && !l.isTainted(j) {
			return true
		}
	}
	return false
}

// isBehindCut tells whether claim i may be forgotten for the sake of some cut; see Compact.
func (l *law) isBehindCut(i int) bool {
	for j := range l.cell {
		if l.cell[j].Strength >= Delivered && l.after(j, i) && !l.isTainted(j) && l.isCut(j) {
			return true
		}
	}
	return false
}

// isCut tells whether every other claim of the place lies surely before or surely after claim j.
func (l *law) isCut(j int) bool {
	for i := range l.cell {
		if i != j && l.cell[i].Place == l.cell[j].Place && !l.after(j, i) && !l.after(i, j) {
			return false
		}
	}
	return true
}

// after tells whether claim i surely began after claim j ended, in the same place.
func (l *law) after(i, j int) bool {
	a, b := l.cell[i], l.cell[j]
	if a.Place != b.Place || a.Origin {
		return false
	}
	return b.Origin || a.Span.After(b.Span)
}

// isTainted tells whether the service may not have restarted with the delivered claim i: an attempt with the same
// version, not surely later and not whole, may have left the new file beside the old process, so that the run found nothing to
// change and notified nobody. It is lifted by what was delivered in between: a file of another version, which the
// run then changed, or a delivery that is not tainted itself.
func (l *law) isTainted(i int) bool {
	if l.cell[i].Strength == Proved {
		return false
	}
	if known, ok := l.tainted[i]; ok {
		return known
	}
	l.tainted[i] = false
	for x := range l.cell {
		if l.maySilence(x, i) && !l.isLifted(x, i) {
			l.tainted[i] = true
			break
		}
	}
	return l.tainted[i]
}

func (l *law) maySilence(x, i int) bool {
	attempt, delivery := l.cell[x], l.cell[i]
	return x != i && !attempt.Origin && attempt.Strength == Attempted && !attempt.Whole && attempt.Place == delivery.Place &&
		attempt.Versions.Meets(delivery.Versions) && !l.after(x, i)
}

func (l *law) isLifted(x, i int) bool {
	for c := range l.cell {
		between := l.cell[c].Strength >= Delivered && l.after(c, x) && l.after(i, c)
		if between && (!l.cell[c].Versions.Meets(l.cell[i].Versions) || !l.isTainted(c)) {
			return true
		}
	}
	return false
}
