package file

// Crash ends a log as the end of its process would: what is not written is lost.
func Crash(l *Log) {
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		l.crashed = true
		close(l.stop)
	}
	l.wg.Wait()
}
