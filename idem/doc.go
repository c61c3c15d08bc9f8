// Package idem does the work of one logical operation once, however often and however concurrently it is submitted: a
// retried payment, a double click, a redelivered webhook.
package idem
