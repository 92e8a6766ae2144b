// Package config reads the settings: flags, environment variables and the configuration file, in that order of precedence.
// Every setting knows where it came from; a wrong one stops the start with file, line and what was expected.
package config
