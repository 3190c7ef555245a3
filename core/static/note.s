# .note.tailrace: a program that is linked with libtailrace.a records by itself (format/program.cc).
	.section .note.tailrace, "a", %note
	.balign 4
	.long 9, 0, 1
	.asciz "tailrace"
	.balign 4
	.section .note.GNU-stack, "", %progbits
