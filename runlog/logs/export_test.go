package logs

import "time"

// Crash ends a log as the end of its process would.
func Crash(l *Log) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
}

// Hurry has what pages have be in the runs' logs, and pages removed, so many times sooner. It is called before there is a run.
func Hurry(l *Log, times int) {
	l.pump.do(func() {
		l.pump.page.own /= time.Duration(times)
		l.pump.page.often /= time.Duration(times)
	})
}

// InPages counts the runs of which something is only in pages.
func InPages(l *Log) (n int) {
	done := make(chan struct{})
	if l.pump.do(func() {
		for _, e := range l.pump.entries {
			if e.since > 0 {
				n++
			}
		}
		close(done)
	}) {
		<-done
	}
	return n
}

// PageLog is the name of the log where a replica's next page goes.
func PageLog(l *Log) string {
	name := make(chan string, 1)
	l.pump.do(func() { name <- l.pump.page.name })
	return <-name
}
