package tracking

// Confirm is confirm, for a test that needs an API server.
var Confirm = (*Tracker).confirm
