// Package sqltx adapts database/sql to the transaction contract of Holdfast.
package sqltx
