// Package singleflight_test proves package singleflight, also on the faults that others have had. A test is named after the fault:
//
//	S1   the end of the first caller's context fails all     TestS1ALeaderWhoIsCancelledTakesNobodyAlong
//	S3   a panic leaves the key taken                        TestS3S4APanicIsAnErrorForAll
//	S4   a panic ends the process                            TestS3S4APanicIsAnErrorForAll
//	S5   Goexit hangs, or is a zero value                    TestS5GoexitIsAnErrorForAll
//	S6   a caller waits on beyond its deadline               TestS6AWaiterLeavesAtItsDeadline
//	S7   a later caller gets the result of an ended call     TestS7AMillionCallsInARowAreAMillionCalls
//	S8   what was invalidated meanwhile is stored            TestS8InvalidateKeepsLaterCallersOut, TestS8NothingStaleIsStored
//	S9   the same, by another process                        redisflight: TestS9AFillThatWasInvalidatedElsewhereIsRefused
//	S10  a caller cancelled at the acquisition leaves a lock redisflight: TestS10ACallerCancelledWhileItAcquiresLeavesNoOrphan,
//	                                                         TestS10CancelledAtAnyMoment, TestS10AGrantThatNobodyHeardOf
//	S11  a panic leaves the lock                             redisflight: TestS11ALoadThatPanicsGivesTheLeaseBack
//	S12  a value is taken for a lock                         redisflight: TestS12ValuesOfAnyBytes
//	S13  a dead process keeps the lock                       redisflight: TestS13AProcessThatIsKilledHandsOver,
//	                                                         TestS13AProcessThatStoodStillStoresNothing, TestS13ADeadLoaderHandsOver
//	S14  races                                               TestS14SixtyFourAtOnce
//	S17  a short TTL is rounded up, what cannot be read is   redisflight: TestS17TTLAndUnreadableValues
//	     read again without end
//	S18  a store after a deletion, keys by their print       TestS18NothingIsStoredBehindADeletion, TestS18KeysAreComparedByValue
//	S19  a shutdown that forgets calls under way             TestS19CloseWaitsForEveryFlight, redisflight: TestS19Close
package singleflight_test
