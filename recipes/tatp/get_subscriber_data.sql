-- Subscribers are picked unevenly, as the benchmark does: the bits of two numbers, joined by or.
\set mask :subscribers / 16
\set s_id 1 + (random(0, :mask) | random(0, :subscribers - 1)) % :subscribers
select * from subscriber where s_id = :s_id;
