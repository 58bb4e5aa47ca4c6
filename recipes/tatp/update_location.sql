-- Subscribers are picked unevenly, as the benchmark does: the bits of two numbers, joined by or.
\set mask :subscribers / 16
\set s_id 1 + (random(0, :mask) | random(0, :subscribers - 1)) % :subscribers
\set location random(0, 2147483646)
update subscriber set vlr_location = :location where sub_nbr = lpad(:s_id::text, 15, '0');
