// Package counter counts without losing a unit, and takes from a stock without selling more than there is.
package counter
