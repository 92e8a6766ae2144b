package agui

// SetBounds makes values large that are small, until restore is called.
func SetBounds(value, piece int) (restore func()) {
	oldValue, oldPiece := maxValue, maxPiece
	maxValue, maxPiece = value, piece
	return func() { maxValue, maxPiece = oldValue, oldPiece }
}
