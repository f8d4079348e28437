package broker_test

import (
	"errors"
	"os"
	"testing"

	"github.com/rotation-operator/rotation-operator/internal/lab/broker"
)

// TestLogin: who exists and knows the password can log in, nobody else.
func TestLogin(t *testing.T) {
	if err := broker.Available(); err != nil && os.Getenv("ROTATION_REQUIRE_RABBITMQ") == "" {
		t.Skip(err)
	}
	ctx := t.Context()
	b, err := broker.Start(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Stop()
	logsIn := func(want bool, name, password string) {
		t.Helper()
		if got, err := b.Login(ctx, name, password); err != nil || got != want {
			t.Errorf("logging in as %s with %s: %v (%v), want %v", name, password, got, err, want)
		}
	}
	logsIn(false, "user7", "pw")
	if err := errors.Join(b.AddUser(ctx, "user7", "pw"), b.AddUser(ctx, "user8", "p:@/")); err != nil {
		t.Fatal(err)
	}
	logsIn(true, "user7", "pw")
	logsIn(true, "user8", "p:@/")
	logsIn(false, "user7", "wrong")
	if err := b.DeleteUser(ctx, "user7"); err != nil {
		t.Fatal(err)
	}
	logsIn(false, "user7", "pw")
	logsIn(true, "user8", "p:@/")
	if err := b.DeleteUser(ctx, "user7"); err == nil {
		t.Error("a user who does not exist can be deleted")
	}
}
