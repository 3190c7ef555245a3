// See base/private_stack.h. The old stack pointer stays in a callee-saved register.
namespace tailrace {

#if defined(__x86_64__)
__asm__(R"(
  .text
  .hidden _ZN8tailrace13call_on_stackEPFvPvES0_S0_
  .globl _ZN8tailrace13call_on_stackEPFvPvES0_S0_
  .type _ZN8tailrace13call_on_stackEPFvPvES0_S0_, @function
_ZN8tailrace13call_on_stackEPFvPvES0_S0_:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdx, %rsp
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size _ZN8tailrace13call_on_stackEPFvPvES0_S0_, .-_ZN8tailrace13call_on_stackEPFvPvES0_S0_
)");
#elif defined(__aarch64__)
__asm__(R"(
  .text
  .hidden _ZN8tailrace13call_on_stackEPFvPvES0_S0_
  .globl _ZN8tailrace13call_on_stackEPFvPvES0_S0_
  .type _ZN8tailrace13call_on_stackEPFvPvES0_S0_, %function
_ZN8tailrace13call_on_stackEPFvPvES0_S0_:
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset 29, -16
  .cfi_offset 30, -8
  mov x29, sp
  .cfi_def_cfa_register 29
  mov x9, x0
  mov x0, x1
  mov sp, x2
  blr x9
  mov sp, x29
  ldp x29, x30, [sp], #16
  .cfi_def_cfa 31, 0
  ret
  .cfi_endproc
  .size _ZN8tailrace13call_on_stackEPFvPvES0_S0_, .-_ZN8tailrace13call_on_stackEPFvPvES0_S0_
)");
#endif

}  // namespace tailrace
