package run

// RunObserver is told how a run goes on. First is called once at most, from whatever goroutine sends the first delta; End once, and last.
type RunObserver interface {
	First()
	// End has the status of the run's last event, and the code of the error that it has failed of; "" for none. "moved" is the status of a
	// run that goes on at another replica, whose observer is told of its end.
	End(status, code string)
}
