package agui

// SetMaxValue makes values too large that are small, until restore is called.
func SetMaxValue(bytes int) (restore func()) {
	old := maxValue
	maxValue = bytes
	return func() { maxValue = old }
}
