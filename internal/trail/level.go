package trail

import (
	"log/slog"
	"strings"
)

// Level is the level of the line about work that failed with this code: an error if an operator must act, because it will not get better by
// itself; a warning if an operator may want to act; else info, because callers make mistakes. One failure has one such line: all other lines
// about it are at info or below.
func Level(code string) slog.Level {
	switch {
	case code == "internal", code == "upstream_auth":
		return slog.LevelError
	case strings.HasPrefix(code, "upstream_"), code == "output_invalid", code == "output_refused", code == "overloaded", code == "budget_exceeded":
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
