; Glass, the demonstration cartridge of Glass VCS. MIT licence, like the rest of the repository.
;
; You are the goblet (player 0, joystick). Fill it with the drops that fall out of nowhere (the ball): each is a
; point. Shoot (missile 0) the fly (player 1): five points, and it comes back. The fly drops pebbles (missile 1):
; a pebble or the fly itself in your goblet is a point for the fly.
;
; Every object of the TIA, its collision latches, the RIOT's timer, both switch ports and decimal mode take part,
; and nothing is done cleverly for its own sake: the program is there to be traced and explained.
; A frame has 262 lines: 3 of vertical sync, 37 blank (timer), 192 shown, 30 of overscan (timer).
;
;   python -m vcs.asm vcs/carts/glass.asm -o vcs/carts/glass.bin

        processor 6502

; --- what can be tuned

LEFT    = 17                    ; limits of the arena, in pixels and in pairs of lines from the bottom
RIGHT   = 135
BOTTOM  = 6
TOP     = 74
PAIRS   = 88                    ; the arena is 88 pairs of lines high, 176 lines
AWAY    = 255                   ; a height at which nothing is ever drawn
SPEED   = 3                     ; pixels a shot flies in a frame

; --- variables

        seg.u
        org $80
frame   ds 1                    ; counts frames
random  ds 1                    ; state of the shift register
xs      ds 5                    ; left edge of P0 P1 M0 M1 BL, in pixels
ys      ds 5                    ; lower edge of the same, in pairs of lines
old_x   ds 1                    ; where the goblet was in the last frame
old_y   ds 1
facing  ds 1                    ; REFP0: 8 looks left
fly_dx  ds 1                    ; the fly's steps, +1 or -1
fly_dy  ds 1
shot_dx ds 1                    ; the shot's step
score   ds 2                    ; yours and the fly's, two decimal digits each
shown   ds 10                   ; the five rows of your score, then of the fly's, as playfield bits
next_p0 ds 1                    ; what the kernel shows on its next pair of lines
next_p1 ds 1
next_bl ds 1
next_f1 ds 1
next_f2 ds 1

X0 = xs
X1 = xs+1
XM0 = xs+2
XM1 = xs+3
XBL = xs+4
Y0 = ys
Y1 = ys+1
YM0 = ys+2
YM1 = ys+3
YBL = ys+4

        seg
        org $F000

; --- power-on

start   sei
        cld
        ldx #$FF
        txs
        inx
        txa
.clear  sta $00,x               ; TIA and RAM to 0
        inx
        bne .clear
        lda #$5A                ; any value but 0 keeps the shift register going
        sta random

new_game
        ldx #9
.place  lda Places,x            ; xs and ys lie one behind the other
        sta xs,x
        dex
        bpl .place
        lda #1
        sta fly_dx
        sta fly_dy
        lda #0
        sta score
        sta score+1

; --- one frame

main    lda #2
        sta VSYNC
        sta VBLANK
        sta WSYNC
        sta WSYNC
        sta WSYNC
        lda #0
        sta VSYNC
        lda #44                 ; reads 0 after 43 * 64 cycles, in the last of the 37 blank lines
        sta TIM64T

        inc frame
        ldx #3
.colour lda Colours,x           ; COLUP0 COLUP1 COLUPF COLUBK
        sta COLUP0,x
        dex
        bpl .colour
        lda #$20                ; missiles four pixels wide
        sta NUSIZ0
        sta NUSIZ1
        lda facing
        sta REFP0
        lda fly_dx              ; -1 has bit 3 set, +1 has not: the fly looks where it flies
        sta REFP1
        jsr digits
        ldx #4
.move   lda xs,x
        jsr position
        dex
        bpl .move
        sta WSYNC
        sta HMOVE
        ldy #12                 ; the motion registers must rest for 24 cycles after HMOVE
.rest   dey
        bne .rest
        sta HMCLR

.blank  lda INTIM
        bne .blank
        sta WSYNC
        sta VBLANK              ; A is 0: the beam is on

; 16 lines: the two scores, each in its player's colour

        lda #2                  ; left half in COLUP0, right half in COLUP1
        sta CTRLPF
        ldx #2
.above  sta WSYNC
        dex
        bne .above
        ldx #4
.row    ldy #2
.line   sta WSYNC
        lda shown,x             ; 4
        sta PF1                 ; 7
        nop
        nop
        nop
        nop
        nop
        nop
        nop                     ; 21
        nop
        nop
        nop
        nop
        nop
        nop
        nop                     ; 35
        lda shown+5,x           ; 39, the left half of PF1 is over at cycle 38
        sta PF1                 ; 42, the right half of it begins at 54
        dey
        bne .line
        dex
        bpl .row
        sta WSYNC
        lda #0
        sta PF1
        ldx #2
.below  sta WSYNC
        dex
        bne .below

; 176 lines: the arena, in pairs. Y counts the pairs down. On the first line of a pair the players and the
; playfield change, on the second the missiles and the ball; what they change to was computed before.

        lda #$31                ; reflected playfield; ball eight pixels wide
        sta CTRLPF
        lda #$80
        sta PF0                 ; the side walls
        ldy #PAIRS

.pair   sta WSYNC
        lda next_p0
        sta GRP0
        lda next_p1
        sta GRP1
        lda next_f1
        sta PF1
        lda next_f2
        sta PF2                 ; 24: the beam shows PF2 from cycle 38 on
        tya                     ; a shape stands at the start of a page of zeros:
        sec                     ; outside of it the difference finds a zero
        sbc Y0
        tax
        lda Goblet,x
        sta next_p0
        tya
        sec
        sbc YBL
        tax
        lda Drop,x
        sta next_bl

        sta WSYNC
        lda next_bl
        sta ENABL
        ldx #$1E                ; a push writes ENAM1, then ENAM0: the zero flag, bit 1 of P, is the switch
        txs
        cpy YM1
        php
        cpy YM0
        php                     ; 22
        tya
        sec
        sbc Y1
        tax
        lda Fly,x
        sta next_p1
        tya
        lsr
        lsr
        tax
        lda Arena1,x
        sta next_f1
        lda Arena2,x
        sta next_f2
        dey
        bne .pair

; 30 lines of overscan: blank, and the game itself

        sta WSYNC
        ldx #$FF
        txs
        lda #2
        sta VBLANK
        lda #36                 ; likewise, in the last of the 30 lines of overscan
        sta TIM64T
        lda #0
        sta PF0
        sta PF1
        sta PF2
        sta GRP0
        sta GRP1
        sta ENAM0
        sta ENAM1
        sta ENABL
        jsr collide
        jsr steer
        jsr shoot
        jsr fly
        sta CXCLR
.over   lda INTIM
        bne .over
        sta WSYNC
        lda SWCHB
        lsr                     ; bit 0 is the RESET switch, 0 when pressed
        bcc .again
        jmp main
.again  jmp new_game

; --- put object X (0 to 4) at pixel A. The beam moves 15 pixels in the 5 cycles of the loop; the remainder,
; turned into a motion of -8 to +6, is applied by the next HMOVE.

position
        cpx #2                  ; missiles and ball stand one pixel further left than players
        adc #SHIFT
        sta WSYNC
        sec
.div15  sbc #15
        bcs .div15
        eor #7
        asl
        asl
        asl
        asl
        sta HMP0,x
        sta RESP0,x
        rts

SHIFT   = -3                    ; so that X is the pixel of the left edge

; --- the scores as playfield rows: tens in the upper half of the byte, units in the lower

digits  ldy #1
.score  lda score,y
        and #$0F
        sta next_f1             ; five bytes of Font for each digit
        asl
        asl
        adc next_f1
        sta next_f1             ; units * 5
        lda score,y
        lsr
        lsr
        lsr
        lsr
        sta next_f2
        asl
        asl
        adc next_f2
        sta next_f2             ; tens * 5
        tya
        beq .yours
        lda #5
.yours  clc
        adc #4
        tax                     ; last row of this score in `shown`
        lda #5
        sta next_bl
.copy   sty next_p1
        ldy next_f1
        lda Font,y
        and #$0F
        sta shown,x
        ldy next_f2
        lda Font,y
        and #$F0
        ora shown,x
        sta shown,x
        ldy next_p1
        inc next_f1
        inc next_f2
        dex
        dec next_bl
        bne .copy
        dey
        bpl .score
        lda #0                  ; the kernel starts with nothing but the wall
        sta next_p0
        sta next_p1
        lda Arena1+21
        sta next_f1
        lda Arena2+21
        sta next_f2
        rts

; --- what touched what in the frame that was just shown

collide bit CXP0FB              ; bit 7: goblet and playfield, bit 6: goblet and ball
        bpl .free
        lda old_x
        sta X0
        lda old_y
        sta Y0
.free   bit CXP0FB
        bvc .dry
        lda #1
        ldx #0
        jsr add
        jsr chance
        and #63
        clc
        adc #48
        sta XBL
        jsr chance
        and #31
        adc #8
        sta YBL
.dry    lda CXM0P               ; bit 7: shot and fly
        bpl .missed
        lda #5
        ldx #0
        jsr add
        lda #AWAY
        sta YM0
        jsr chance
        and #63
        clc
        adc #48
        sta X1
        lda #TOP-1
        sta Y1
.missed bit CXM1P               ; bit 7: pebble and goblet
        bmi .ouch
        bit CXPPMM              ; bit 7: goblet and fly
        bpl .safe
        lda frame               ; a fly in the goblet counts four times a second
        and #15
        bne .safe
.ouch   lda #1
        ldx #1
        jsr add
        lda #AWAY
        sta YM1
.safe   rts

; add A, in decimal, to score X

add     sed
        clc
        adc score,x
        sta score,x
        cld
        rts

; the next pseudo-random byte in A: a shift register of eight bits that runs through 255 values

chance  lda random
        lsr
        bcc .even
        eor #$B4
.even   sta random
        rts

; --- the joystick moves the goblet

steer   lda X0
        sta old_x
        lda Y0
        sta old_y
        lda SWCHA               ; right left down up of the left joystick in bits 7 to 4, 0 when pressed
        asl
        bcs .notright
        ldx X0
        cpx #RIGHT
        bcs .notright
        inc X0
        ldx #0
        stx facing
.notright
        asl
        bcs .notleft
        ldx X0
        cpx #LEFT+1
        bcc .notleft
        dec X0
        ldx #8
        stx facing
.notleft
        asl
        bcs .notdown
        ldx Y0
        cpx #BOTTOM+1
        bcc .notdown
        dec Y0
.notdown
        asl
        bcs .notup
        ldx Y0
        cpx #TOP
        bcs .notup
        inc Y0
.notup  rts

; --- the button shoots; a shot flies until it leaves the arena

shoot   lda YM0
        cmp #AWAY
        bne .flying
        bit INPT4               ; bit 7 is 0 when the button is pressed
        bmi .done
        lda Y0
        clc
        adc #4
        sta YM0
        lda X0
        adc #2
        sta XM0
        ldx #SPEED
        lda facing
        beq .toright
        ldx #-SPEED
.toright
        stx shot_dx
.done   rts
.flying lda XM0
        clc
        adc shot_dx
        sta XM0
        cmp #RIGHT+5
        bcs .gone
        cmp #LEFT
        bcs .done
.gone   lda #AWAY
        sta YM0
        rts

; --- the fly goes to and fro, every other frame up or down, and drops a pebble now and then

fly     lda X1
        clc
        adc fly_dx
        sta X1
        cmp #RIGHT
        bcs .turn
        cmp #LEFT
        bcs .height
.turn   lda #0
        sec
        sbc fly_dx
        sta fly_dx
.height lda frame
        lsr
        bcs .pebble
        lda Y1
        adc fly_dy              ; the carry is clear here
        sta Y1
        cmp #TOP
        bcs .swap
        cmp #40
        bcs .pebble
.swap   lda #0
        sec
        sbc fly_dy
        sta fly_dy
.pebble lda YM1
        cmp #AWAY
        bne .falls
        lda frame
        and #63
        bne .end
        lda Y1
        sta YM1
        lda X1
        clc
        adc #2
        sta XM1
        rts
.falls  dec YM1
        lda YM1
        cmp #BOTTOM-2
        bcs .end
        lda #AWAY
        sta YM1
.end    rts

; --- tables

Places  .byte 40, 100, 0, 0, 76         ; xs
        .byte 20, 60, AWAY, AWAY, 30    ; ys

Colours .byte $9A                       ; goblet: light blue
        .byte $46                       ; fly: red
        .byte $C6                       ; walls and drop: green
        .byte $00                       ; background: black

; three pixels wide, in both halves of the byte; five rows from the top
Font    .byte $EE,$AA,$AA,$AA,$EE       ; 0
        .byte $44,$CC,$44,$44,$EE       ; 1
        .byte $EE,$22,$EE,$88,$EE       ; 2
        .byte $EE,$22,$66,$22,$EE       ; 3
        .byte $AA,$AA,$EE,$22,$22       ; 4
        .byte $EE,$88,$EE,$22,$EE       ; 5
        .byte $EE,$88,$EE,$AA,$EE       ; 6
        .byte $EE,$22,$22,$44,$44       ; 7
        .byte $EE,$AA,$EE,$AA,$EE       ; 8
        .byte $EE,$AA,$EE,$22,$EE       ; 9

; playfield of the arena, one row for four pairs of lines, from the bottom; PF1 then PF2
Arena1  .byte $FF
        ds 11
        .byte %00011110, %00010010, %00000000, %00000000
        ds 5
        .byte $FF
        .byte $FF                       ; the pair counter starts at 88
Arena2  .byte $FF
        ds 9
        .byte %11000000, %11000000
        ds 4
        .byte %01100000, %01100000
        ds 3
        .byte $FF
        .byte $FF

        align 256
Goblet  .byte %01111110                 ; shapes stand on their heads: the kernel counts upwards
        .byte %00011000
        .byte %00011000
        .byte %00111100
        .byte %01011110
        .byte %01001110
        .byte %01000010
        .byte %11000011
        ds 248
Fly     .byte %00100100
        .byte %01011010
        .byte %00111100
        .byte %01111011
        .byte %11111111
        .byte %11011110
        .byte %10000100
        .byte %01000010
        ds 248
Drop    .byte 2, 2, 2, 2
        ds 252

        org $FFFC
        .word start                     ; RESET
        .word start                     ; BRK
