package executor

import (
	"context"

	"github.com/rotation-operator/rotation-operator/internal/hostpattern"
)

type faults struct{}

func faultsOf(selection hostpattern.Selection, outcome Outcome) faults { return faults{} }

func (e *Executor) runAnsible(ctx context.Context, content container, faults faults) (end, error) {
	return end{}, nil
}
